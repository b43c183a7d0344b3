#include "kinema/nn/flash_block_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"

namespace kinema::nn {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Tokens of 720p and 480p videos of 81 frames, of 704p of 121, and a ring's part of one.
constexpr int64_t kLengths[] = {75600, 32760, 27280, 18900};

/// The sizes that training scripts quote for v6e.
kernels::FlashBlockSizes quoted_for_v6e() {
  return {3024, 2048, 1024, 3024, 2048, 1024, 3024, 2048, false};
}
/// And for v5p.
kernels::FlashBlockSizes quoted_for_v5p() {
  return {3024, 2048, 1024, 1024, 3072, 256, 1024, 3072, false};
}

TEST(BlockSizes, AreTakenAnyhowWhereBlocksAreStableHlo) {
  EXPECT_NO_THROW(check_block_sizes(quoted_for_v6e(), BlockRules::ANY, 7, 5));
  EXPECT_THAT([] { check_block_sizes({.block_q = 0}, BlockRules::ANY, 7, 5); },
              ThrowsMessage<Error>(HasSubstr("block_q is 0 but must be from 1 to 1048576")));
}

TEST(BlockSizes, OfScriptsForV6eRunForwardAndAreRefusedBackward) {
  for (const int64_t length : kLengths) {
    EXPECT_NO_THROW(check_block_sizes(quoted_for_v6e(), BlockRules::TPU_FORWARD, length, length));
  }
  EXPECT_THAT([] { check_block_sizes(quoted_for_v6e(), BlockRules::TPU_TRAINING, 75600, 75600); },
              ThrowsMessage<Error>(AllOf(
                  HasSubstr("block_q_dkv is 3024, but the backward kernel takes multiples of 128"),
                  HasSubstr("block_q_dkv: 3072"))));
}

TEST(BlockSizes, OfScriptsForV5pDoNotDivideTheFilledUpLength) {
  kernels::FlashBlockSizes sizes = quoted_for_v5p();
  sizes.block_q = 3072;  // so that only the keys are wrong
  EXPECT_THAT([&] { check_block_sizes(sizes, BlockRules::TPU_TRAINING, 32760, 32760); },
              ThrowsMessage<Error>(HasSubstr(
                  "32760 keys are filled up to 33792, a multiple of 3072, which block_kv=2048")));
}

TEST(BlockSizes, OfTheDefaultFitEverywhere) {
  for (const int64_t length : kLengths) {
    EXPECT_NO_THROW(check_block_sizes({}, BlockRules::TPU_TRAINING, length, length));
  }
}

TEST(BlockSizes, ThatAreSuggestedOrKnownFit) {
  for (const KnownBlockSizes& known : known_block_sizes()) {
    for (const int64_t length : kLengths) {
      SCOPED_TRACE(fmt::format("{}, {} tokens", known.generation, length));
      EXPECT_NO_THROW(check_block_sizes(known.sizes, known.use, length, length));
    }
  }
  const kernels::FlashBlockSizes far{-7,   int64_t{1} << 62, 0, 1, 1, int64_t{1} << 62, 1 << 20, 1,
                                     false};
  const kernels::FlashBlockSizes odd{100, 300, 77, 1000, 700, 650, 3000, 5000, false};
  for (const kernels::FlashBlockSizes& sizes : {quoted_for_v5p(), quoted_for_v6e(), odd, far}) {
    for (const BlockRules rules : {BlockRules::TPU_FORWARD, BlockRules::TPU_TRAINING}) {
      const kernels::FlashBlockSizes fitting = fitting_block_sizes(sizes, rules);
      for (const int64_t length : kLengths) {
        EXPECT_NO_THROW(check_block_sizes(fitting, rules, length, length));
      }
      EXPECT_EQ(fitting_block_sizes(fitting, rules), fitting);
    }
  }
}

TEST(BlockSizes, AreKnownByGenerationAndUse) {
  EXPECT_EQ(block_sizes_for("v6e", BlockRules::TPU_TRAINING)->block_q_dkv, 3072);
  EXPECT_EQ(block_sizes_for("v6e", BlockRules::TPU_FORWARD)->block_q, 3024);
  EXPECT_FALSE(block_sizes_for("tpu7x", BlockRules::TPU_TRAINING).has_value());
  EXPECT_FALSE(block_sizes_for("v4", BlockRules::TPU_FORWARD).has_value());
}

TEST(BlockSizes, OfAFusedBackwardPassLeaveTheOtherOut) {
  kernels::FlashBlockSizes sizes{.block_q_dq = 100, .block_kv_dq = 100};
  EXPECT_THROW(check_block_sizes(sizes, BlockRules::TPU_TRAINING, 1024, 1024), Error);
  sizes.use_fused_bwd_kernel = true;
  EXPECT_NO_THROW(check_block_sizes(sizes, BlockRules::TPU_TRAINING, 1024, 1024));
}

}  // namespace
}  // namespace kinema::nn
