#include "kinema/resolve/attention_notices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/config/config.h"

namespace kinema::resolve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

config::Config with(const std::string& attention, const std::string& sizes) {
  config::Loaded loaded;
  config::set(loaded, "attention", attention);
  if (!sizes.empty()) {
    config::set(loaded, "flash_block_sizes", sizes);
  }
  return loaded.config;
}

TEST(AttentionNotices, NamesOfKernelsAreExplained) {
  EXPECT_THAT(attention_notices(with("ulysses", ""), ""), IsEmpty());
  EXPECT_THAT(
      attention_notices(with("ulysses_custom_fixed_m", ""), ""),
      ElementsAre(HasSubstr("ulysses_custom_fixed_m is computed by the kernel of ulysses")));
  EXPECT_THAT(attention_notices(with("ulysses_ring_custom_bidir", ""), "TPU v6e"),
              ElementsAre(HasSubstr(
                  "ulysses_ring_custom_bidir is computed by the kernel of ulysses_ring")));
}

TEST(AttentionNotices, BlockSizesThatAChipDoesNotTakeAreAnsweredWithTheNearest) {
  const config::Config documented =
      with("flash",
           "{block_q: 3024, block_kv: 2048, block_kv_compute: 1024, block_q_dkv: 3024, "
           "block_kv_dkv: 2048, block_kv_dkv_compute: 1024, block_q_dq: 3024, "
           "block_kv_dq: 2048}");
  EXPECT_THAT(attention_notices(documented, ""), IsEmpty());  // XLA's operations take any size
  const auto on_v5p = attention_notices(documented, "TPU v5p");
  ASSERT_EQ(on_v5p.size(), 1);
  EXPECT_THAT(on_v5p[0], HasSubstr("block_q 3024 is 2944, block_q_dkv 3024 is 2944"));
  EXPECT_THAT(on_v5p[0], HasSubstr("63 MiB of VMEM"));

  // More than a core's memory: fewer keys per block.
  const config::Config large =
      with("flash", "{block_q: 9472, block_kv: 1024, block_kv_compute: 1024}");
  EXPECT_THAT(attention_notices(large, "TPU v6e"), IsEmpty());
  EXPECT_THAT(attention_notices(large, "TPU v5p"),
              ElementsAre(HasSubstr("block_kv_compute 1024 is 256")));
  EXPECT_THAT(
      attention_notices(with("flash", "{block_kv: 2048, block_kv_compute: 768}"), "TPU v6e"),
      ElementsAre(HasSubstr("block_kv_compute 768 is 512")));
}

TEST(AttentionNotices, MemoryAndHeadsThatAChipDoesNotHaveAreAnsweredWithTheNearest) {
  const auto notices = [](const std::string& sizes, const char* chip) {
    return attention_notices(with("flash", sizes), chip);
  };
  // 200 MB, and a limit that even the smallest tiles exceed.
  EXPECT_THAT(notices("{vmem_limit_bytes: 200000000}", "TPU v5p"),
              ElementsAre(HasSubstr("vmem_limit_bytes 200000000 is 66060288:")));
  EXPECT_THAT(notices("{vmem_limit_bytes: 200000000}", "TPU v4"),
              ElementsAre(HasSubstr("vmem_limit_bytes 200000000 is 16777216:")));
  EXPECT_THAT(notices("{vmem_limit_bytes: 4096}", "TPU v6e"),
              ElementsAre(::testing::ContainsRegex(
                  "block_q 512 is 128, .*vmem_limit_bytes 4096 is [1-9][0-9]{6}:")));
  EXPECT_THAT(notices("{vmem_limit_bytes: 60000000}", "TPU v5p"), IsEmpty());
  // 12 heads.
  EXPECT_THAT(notices("{heads_per_tile: 5}", "TPU v6e"),
              ElementsAre(HasSubstr("heads_per_tile 5 is 4:")));
  EXPECT_THAT(notices("{heads_per_tile: 4}", "TPU v6e"), IsEmpty());
}

TEST(AttentionNotices, HeadsThatNoKernelTakesAreNamed) {
  config::Config wide = with("flash", "{block_q: 3024}");
  wide.model.attention_head_dim.value = 512;
  EXPECT_THAT(attention_notices(wide, "TPU v6e"),
              ElementsAre("attention on TPU v6e has no kernel and is computed blockwise: the head "
                          "width is 512, expected at most 256"));
  EXPECT_THAT(attention_notices(wide, ""), IsEmpty());
  wide.model.attention = "dot_product";
  EXPECT_THAT(attention_notices(wide, "TPU v6e"), IsEmpty());
}

TEST(AttentionNotices, DefaultSizesAreNotMentioned) {
  EXPECT_THAT(attention_notices(with("flash", ""), "TPU v4"), IsEmpty());
  config::Config without = with("flash", "{block_q: 3024}");
  without.model.attention_kernels = false;
  EXPECT_THAT(attention_notices(without, "TPU v4"), IsEmpty());
}

}  // namespace
}  // namespace kinema::resolve
