// Compiles quantized products with XLA's CUDA plugin, without a GPU: `kinema doctor --install
// cuda`.
#include "planning/narrow_products.h"

namespace kinema::planning {
namespace {

class GpuNarrow : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    plugin_ = plugin_of("cuda");
    if (plugin_.empty()) {
      GTEST_SKIP() << "the CUDA plugin is not installed: kinema doctor --install cuda";
    }
  }
  std::string plugin_;
};

TEST_P(GpuNarrow, ProductsKeepTheirCodes) {
  using Mode = nn::Quantization::Mode;
  for (const Mode mode : {Mode::INT8, Mode::FP8, Mode::FP8_FULL}) {
    SCOPED_TRACE(static_cast<int>(mode));
    const std::string text = compiled(layer_program(mode), std::string(GetParam()) + ":1", plugin_);
    EXPECT_EQ(operands_of_products(text), expected_operands(mode));
    if (mode == Mode::FP8) {
      EXPECT_GE(conversions_from(text, "f8e4m3fn"), 2) << "gradients take what was not rounded";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Chips, GpuNarrow, ::testing::Values("h100", "b200"));

}  // namespace
}  // namespace kinema::planning
