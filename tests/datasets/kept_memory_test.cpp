// What of a run's samples stays in the host's memory.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/datasets/clip_source.h"
#include "kinema/resolve/dataset.h"

namespace kinema::datasets {
namespace {

int64_t kept(const std::vector<std::string>& words, int64_t samples = 504) {
  const std::string file = std::string(KINEMA_SOURCE_DIR) + "/configs/shapes.yml";
  const config::Config config = config::load(file, words).config;
  return cached_bytes(resolve::clip_settings(config), samples, 45'000);
}

TEST(KeptMemory, IsAllClipsThatAreEncodedWhileTheRunGoes) {
  EXPECT_EQ(kept({}), int64_t{504} * 45'000);
  EXPECT_EQ(kept({"random_flip=true"}), int64_t{2} * 504 * 45'000);
  constexpr int64_t kMost = int64_t{1} << 30;
  EXPECT_EQ(kept({}, 1'000'000), kMost);
}

TEST(KeptMemory, IsNoneWhereClipsAreKeptInAFolderOrDifferEachTime) {
  EXPECT_EQ(kept({"dataset_save_location=encoded"}), 0);
  EXPECT_EQ(kept({"random_start=true"}), 0);
  EXPECT_EQ(kept({"cache_latents_text_encoder_outputs=false"}), 0);
}

}  // namespace
}  // namespace kinema::datasets
