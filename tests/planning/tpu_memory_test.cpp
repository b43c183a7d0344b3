// Compiles arguments in host memory with libtpu, which needs no TPU: `kinema doctor --install tpu`.
#include "planning/host_memory.h"

namespace kinema::planning {
namespace {

class TpuMemory : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    plugin_ = plugin_of("tpu");
    if (plugin_.empty()) {
      GTEST_SKIP() << "libtpu is not installed: kinema doctor --install tpu";
    }
  }
  std::string plugin_;
};

TEST_P(TpuMemory, OfTheHostHoldsFrozenLayers) { expect_frozen_layers_wait(GetParam(), plugin_); }

TEST_P(TpuMemory, OfTheHostHoldsMoments) { expect_moments_wait(GetParam(), plugin_); }

INSTANTIATE_TEST_SUITE_P(Chips, TpuMemory, ::testing::Values("v5e:1x1", "v5p:1x1x1", "v6e:1x1"),
                         [](const auto& chip) {
                           const std::string name = chip.param;
                           return name.substr(0, name.find(':'));
                         });

}  // namespace
}  // namespace kinema::planning
