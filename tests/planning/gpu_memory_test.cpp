// Compiles arguments in host memory with XLA's CUDA plugin, without a GPU: `kinema doctor --install
// cuda`.
#include "planning/host_memory.h"

namespace kinema::planning {
namespace {

class GpuMemory : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    plugin_ = plugin_of("cuda");
    if (plugin_.empty()) {
      GTEST_SKIP() << "the CUDA plugin is not installed: kinema doctor --install cuda";
    }
  }
  std::string plugin_;
};

TEST_P(GpuMemory, OfTheHostHoldsFrozenLayers) { expect_frozen_layers_wait(GetParam(), plugin_); }

TEST_P(GpuMemory, OfTheHostHoldsMoments) { expect_moments_wait(GetParam(), plugin_); }

INSTANTIATE_TEST_SUITE_P(Chips, GpuMemory, ::testing::Values("rtx4090:1", "h100:1"),
                         [](const auto& chip) {
                           const std::string name = chip.param;
                           return name.substr(0, name.find(':'));
                         });

}  // namespace
}  // namespace kinema::planning
