#include "kinema/training/flops.h"
#include "networks/wan.h"

#include <gtest/gtest.h>

namespace kinema::training {
namespace {

// The two figures that MaxDiffusion prints and documents, to the digits given there.
TEST(Flops, AgreeWithTheReferenceFor14B) {
  const wan::TransformerConfig config{
      .num_attention_heads = 40, .attention_head_dim = 128, .ffn_dim = 13824, .num_layers = 40};

  EXPECT_NEAR(training_tflops(network_of(config), {16, 21, 90, 160}, 512, 0.25), 4893.2719, 5e-5);
}

TEST(Flops, AgreeWithTheReferenceFor1_3B) {
  EXPECT_NEAR(training_tflops(network_of({}), {16, 21, 60, 104}, 512, 1.0), 849.1575, 5e-5);
}

TEST(Flops, CountTokensByThePatchSize) {
  wan::TransformerConfig config{
      .num_attention_heads = 1, .attention_head_dim = 4, .ffn_dim = 8, .num_layers = 1};
  config.patch_size = {1, 1, 1};
  // s = 2, t = 1, d = 4: 6 s d^2 + 4 s^2 d + 6 t d^2 + 2 s d^2 + 4 s t d + 4 s d^2 + 4 s d ffn
  const double block = 192 + 64 + 96 + 64 + 32 + 128 + 256;

  EXPECT_DOUBLE_EQ(training_tflops(network_of(config), {3, 1, 1, 2}, 1, 2.0), 3 * block * 2 / 1e12);
}

}  // namespace
}  // namespace kinema::training
