// The all-to-alls of Ulysses around the attention kernel, as libtpu schedules them for v6e with
// sets of flags: `kinema doctor --install tpu`; needs no TPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/flags/profile.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/manual.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/nn/attention.h"
#include "kinema/planning/compile_job.h"
#include "kinema/runtime/client.h"

namespace kinema::planning {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Flags = std::map<std::string, pjrt::FlagValue>;

class UlyssesOverlap : public ::testing::Test {
 protected:
  void SetUp() override {
    runtime::ClientSpec spec;
    spec.hardware = "tpu";
    try {
      plugin_ = runtime::find_plugin(spec);
    } catch (const Error&) {
      GTEST_SKIP() << "libtpu is not installed: kinema doctor --install tpu";
    }
  }

  /// Attention of 4,096 tokens whose 8 heads are exchanged in two groups among four devices.
  CompileResult compile(const Flags& flags) const {
    const Target target = parse_target("v6e:2x2");
    const MeshAxes mesh{{{"context", target.devices}}};
    Graph graph;
    std::vector<Tensor> in;
    for (int i = 0; i < 3; ++i) {
      in.push_back(
          graph.input({DType::BF16, {1, 4096, 8, 128}}, "", Sharding{{{}, {"context"}, {}, {}}}));
    }
    nn::AttentionOptions options{.kind = nn::AttentionKind::ULYSSES, .ulysses_chunks = 2};
    options.axes.mesh = mesh;
    options.axes.sequence = {"context"};
    const std::vector<Tensor> outputs{nn::attention(in[0], in[1], in[2], options)};
    EmitOptions how;
    how.mesh = mesh;
    how.output_shardings = {Sharding{{{}, {"context"}, {}, {}}}};
    how.lowering =
        kernels::for_target({.platform = "tpu", .chip = target.chip.kind, .mesh = mesh}).lowering;
    CompileJob job{.target = target, .plugin = plugin_, .program = emit(graph, outputs, how)};
    job.options.partitions = target.devices;
    job.options.flags = flags;
    return compile_in_child(job, std::filesystem::path(KINEMA_BINARY_DIR) / "kinema");
  }

  std::string plugin_;
};

Flags profile_flags() {
  flags::Request request{.platform = {.backend = flags::Backend::TPU, .chip = "v6e"}};
  request.given = flags::given_flags(flags::find_profile("tpu-v6e-ulysses"));
  return flags::resolve(request).options();
}

TEST_F(UlyssesOverlap, TheProfileHasAllToAllsRunBesideTheKernel) {
  const CollectiveOverlap all = compile(profile_flags()).overlap.at("all-to-all");
  EXPECT_GT(all.attention.count, 0);
  EXPECT_GT(all.attention.bytes, 0);
}

TEST_F(UlyssesOverlap, WithoutFlagsTheyAreWaitedFor) {
  const CompileResult result = compile({});
  EXPECT_EQ(result.overlap.at("all-to-all").attention.count, 0);
  EXPECT_EQ(result.overlap.at("all-to-all").exposed.count,
            result.traffic.collectives.at("all-to-all").count);
}

TEST_F(UlyssesOverlap, ThePairOfTheNanReportIsRefused) {
  EXPECT_THAT(
      [&] {
        compile({{"xla_tpu_enable_async_collective_fusion_fuse_all_reduce", true},
                 {"xla_enable_async_all_reduce", std::string("ENABLED")}});
      },
      ThrowsMessage<Error>(HasSubstr("Continuation fusion for AllReduce")));
}

}  // namespace
}  // namespace kinema::planning
