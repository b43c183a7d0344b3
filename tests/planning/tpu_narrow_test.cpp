// Compiles quantized products with libtpu, which needs no TPU: `kinema doctor --install tpu`.
#include "planning/narrow_products.h"

namespace kinema::planning {
namespace {

class TpuNarrow : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    plugin_ = plugin_of("tpu");
    if (plugin_.empty()) {
      GTEST_SKIP() << "libtpu is not installed: kinema doctor --install tpu";
    }
  }
  std::string plugin_;
};

// Without gradient codes the backward pass multiplies floats.
TEST_P(TpuNarrow, ProductsKeepTheirCodes) {
  using Mode = nn::Quantization::Mode;
  for (const Mode mode : {Mode::INT8, Mode::FP8, Mode::FP8_FULL}) {
    SCOPED_TRACE(static_cast<int>(mode));
    const std::string text = compiled(layer_program(mode), GetParam(), plugin_);
    EXPECT_EQ(operands_of_products(text), expected_operands(mode));
    if (mode == Mode::FP8) {
      EXPECT_GE(conversions_from(text, "f8e4m3fn"), 2) << "gradients take what was not rounded";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Chips, TpuNarrow, ::testing::Values("v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1"),
                         [](const auto& chip) {
                           const std::string name = chip.param;
                           return name.substr(0, name.find(':'));
                         });

}  // namespace
}  // namespace kinema::planning
