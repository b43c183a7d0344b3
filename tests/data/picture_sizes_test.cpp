#include "kinema/data/picture_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kinema/data/synthetic.h"

namespace kinema::data {
namespace {

using ::testing::ElementsAre;

std::vector<float> values(const HostArray& array) {
  const auto all = array.as<float>();
  return {all.begin(), all.end()};
}

// To fit 64 x 64, a picture of 100 x 200 first becomes 64 x 128.
const ClipSize kWide{.frames = 1, .height = 100, .width = 200};
const ClipFormat kSquare{.height = 64, .width = 64, .num_frames = 1};

TEST(SizeIds, AreOriginalCropAndTarget) {
  EXPECT_THAT(values(size_ids(kWide, kSquare)), ElementsAre(100, 200, 0, 32, 64, 64));
  EXPECT_THAT(values(size_ids(kWide, kSquare, 0.0F)), ElementsAre(100, 200, 0, 0, 64, 64));
}

TEST(SizeIds, OfAMirroredPictureHaveTheCropOnTheOtherSide) {
  EXPECT_THAT(values(size_ids(kWide, kSquare, 0.0F, /*flipped=*/true)),
              ElementsAre(100, 200, 0, 64, 64, 64));
}

TEST(SizeIds, AreThoseOfAWholePictureWhereSamplesHaveNone) {
  const auto source = with_sizes(synthetic_source({.height = 32,
                                                   .width = 48,
                                                   .num_frames = 1,
                                                   .max_sequence_length = 1,
                                                   .text_embed_dim = 1,
                                                   .num_channels_latents = 1}),
                                 8);
  EXPECT_THAT(values(source->at(3).size_ids), ElementsAre(32, 48, 0, 0, 32, 48));
  EXPECT_FALSE(source->examples().front().size_ids.bytes.empty());
}

TEST(SizeIds, AreKeptWhereSamplesHaveThem) {
  const auto source = with_sizes(synthetic_source({.height = 32,
                                                   .width = 48,
                                                   .num_frames = 1,
                                                   .max_sequence_length = 1,
                                                   .text_embed_dim = 1,
                                                   .num_channels_latents = 1,
                                                   .sizes = true}),
                                 16);
  EXPECT_THAT(values(source->at(0).size_ids), ElementsAre(32, 48, 0, 0, 32, 48));
}

}  // namespace
}  // namespace kinema::data
