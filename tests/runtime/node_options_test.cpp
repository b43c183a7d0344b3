#include <gmock/gmock.h>

#include "kinema/runtime/client.h"

namespace kinema::runtime {
namespace {

using testing::ElementsAre;
using testing::Pair;

pjrt::NamedValues options_of(int64_t local_rank, int64_t local_size,
                             std::optional<std::string> visible = {}) {
  const world::Launch launch{.launcher = world::Launcher::PMIX,
                             .rank = 5,
                             .size = 8,
                             .local_rank = local_rank,
                             .local_size = local_size,
                             .how = "a test"};
  return node_options(launch, [visible](std::string_view name) {
    return name == "CUDA_VISIBLE_DEVICES" ? visible : std::nullopt;
  });
}

TEST(NodeOptions, AreRankAndSize) {
  EXPECT_THAT(options_of(0, 1), ElementsAre(Pair("node_id", pjrt::Value(int64_t{5})),
                                            Pair("num_nodes", pjrt::Value(int64_t{8}))));
}

TEST(NodeOptions, GiveEachOfSeveralOnAHostItsGpu) {
  using List = std::vector<int64_t>;
  EXPECT_EQ(options_of(1, 4).at("visible_devices"), pjrt::Value(List{1}));
  EXPECT_EQ(options_of(3, 4, "4,5,6,7").at("visible_devices"), pjrt::Value(List{3}));
}

TEST(NodeOptions, LeaveAProcessTheOneGpuThatItHas) {
  EXPECT_FALSE(options_of(1, 4, "0").contains("visible_devices"));
}

TEST(VisibleGpus, AreAllThatSharedDevicesAreNotToldOf) {
  const auto none = [](std::string_view) { return std::optional<std::string>(); };
  world::Launch launch{.size = 2, .local_rank = 1, .local_size = 2, .how = "a test"};
  EXPECT_THAT(visible_gpus(launch, none),
              ElementsAre(Pair("visible_devices", pjrt::Value(std::vector<int64_t>{1}))));
  launch.local_size = 1;
  EXPECT_TRUE(visible_gpus(launch, none).empty());
}

}  // namespace
}  // namespace kinema::runtime
