#include <gtest/gtest.h>

#include <vector>

#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "pjrt/cpu_plugin.h"

namespace kinema {
namespace {

class WithSharding : public pjrt::CpuTest {};

TEST_F(WithSharding, SplitsAValueOverTheMesh) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {4, 2}});
  const std::vector<Tensor> y{with_sharding(x * 2.0, {{{"data"}, {}}})};
  const pjrt::Client client = pjrt::cpu_client(2);

  // Input and result have no sharding: only the constraint decides.
  const pjrt::Executable program =
      client.compile(emit(graph, y, {.mesh = {{{"data", 2}}}}), {.partitions = 2});

  EXPECT_EQ(program.output_shapes(), (std::vector<Shape>{{DType::F32, {2, 2}}}));
}

}  // namespace
}  // namespace kinema
