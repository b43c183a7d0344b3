// A third-party program against the installed library: a gradient as StableHLO. Its malloc stays
// the C library's, also with a client open.
#include <malloc.h>

#include <cstdio>
#include <cstdlib>

#include "kinema/config/config.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "kinema/runtime/client.h"

int main() {
  using namespace kinema;
  Graph graph;
  const Tensor x = graph.input({DType::F32, {2, 3}}, "x");
  const Tensor loss = sum(x * x);
  const std::string text = emit(graph, gradients(loss, std::vector<Tensor>{x}));
  const config::Config defaults;
  std::printf("%s\n%s\n", text.c_str(), defaults.model.pretrained_model_name_or_path.c_str());
  const pjrt::Client client = runtime::open_client({});
  constexpr size_t kSize = size_t{3} << 20;
  void* block = aligned_alloc(64, kSize);
  if (malloc_usable_size(block) < kSize) {
    return 1;
  }
  free(block);
  return text.find("stablehlo") == std::string::npos ? 1 : 0;
}
