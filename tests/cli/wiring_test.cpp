#include "cli/wiring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace kinema::cli {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(AttentionOptions, FollowTheConfiguration) {
  config::Config config;
  config.model.attention = "ulysses_ring_custom";
  config.model.flash_min_seq_length = 77;
  config.model.mask_padding_tokens = false;
  config.model.split_head_dim = false;
  config.model.ulysses_shards = 4;
  config.model.ulysses_attention_chunks = 3;
  config.model.flash_block_sizes.json =
      R"({"block_q": 1024, "block_kv_dkv": 256, "block_q_dq": null, "heads_per_tile": 1,
          "use_fused_bwd_kernel": true})";

  const nn::AttentionOptions options = model_options(config).attention;

  EXPECT_EQ(options.kind, nn::AttentionKind::ULYSSES_RING);
  EXPECT_EQ(options.min_length, 77);
  EXPECT_FALSE(options.mask_padding);
  EXPECT_FALSE(options.split_heads);
  EXPECT_EQ(options.ulysses_shards, 4);
  EXPECT_EQ(options.ulysses_chunks, 3);
  EXPECT_EQ(options.rules, nn::BlockRules::ANY);
  EXPECT_EQ(options.blocks,
            (FlashBlockSizes{.block_q = 1024, .block_kv_dkv = 256, .use_fused_bwd_kernel = true}));
  config.run.hardware = "tpu";
  EXPECT_EQ(model_options(config).attention.rules, nn::BlockRules::TPU_TRAINING);
}

TEST(AttentionOptions, DefaultsAreTheOnesOfTheFields) {
  EXPECT_EQ(model_options({}).attention.blocks, FlashBlockSizes{});
}

TEST(AttentionOptions, RefuseBlockSizesThatNobodyKnows) {
  config::Config config;
  config.model.flash_block_sizes.json = R"({"block_k": 512})";
  EXPECT_THAT([&] { model_options(config); },
              ThrowsMessage<Error>(HasSubstr("flash_block_sizes has no `block_k`")));
  config.model.flash_block_sizes.json = R"({"block_q": "512"})";
  EXPECT_THAT([&] { model_options(config); },
              ThrowsMessage<Error>(HasSubstr("must be an integer")));
}

}  // namespace
}  // namespace kinema::cli
