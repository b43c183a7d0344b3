#include "kinema/data/space_to_depth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "kinema/core/error.h"

namespace kinema::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(SpaceToDepth, PutsBlocksIntoChannels) {
  const SpaceToDepth blocks{.block = 2, .temporal = 2};
  HostArray pixels(Shape{DType::F32, {3, 2, 4, 4}});
  std::iota(pixels.as<float>().begin(), pixels.as<float>().end(), 0.0F);

  const HostArray latents = blocks.encode(pixels);

  EXPECT_EQ(latents.shape, (Shape{DType::F32, {24, 1, 2, 2}}));
  // Colour 1, frame 1, row 3, column 2: channel ((1 * 2 + 1) * 2 + 1) * 2 + 0 = 14 of block (1, 1).
  const float pixel = static_cast<float>(((1 * 2 + 1) * 4 + 3) * 4 + 2);
  EXPECT_EQ(latents.as<float>()[14 * 4 + 3], pixel);
}

TEST(SpaceToDepth, LaysRegionsOnTopOfEachOther) {
  const SpaceToDepth blocks{.block = 2, .temporal = 1, .regions = 2, .temporal_regions = 3};
  HostArray pixels(Shape{DType::F32, {3, 9, 8, 12}});
  std::iota(pixels.as<float>().begin(), pixels.as<float>().end(), 0.0F);

  const HostArray latents = blocks.encode(pixels);

  EXPECT_EQ(latents.shape, (Shape{DType::F32, {144, 3, 2, 3}}));
  // Colour 2. Frame 7 is the second of the third block: channel 2, token 1. Row 5 is row 1 of the
  // lower half, in block 0: channel 2 + 1, token 0. Column 10 is column 4 of the right half: block
  // 2, channel 2 + 0.
  const int64_t channel = ((2 * 3 + 2) * 4 + 3) * 4 + 2;
  EXPECT_EQ(latents.as<float>()[static_cast<size_t>(((channel * 3 + 1) * 2 + 0) * 3 + 2)],
            static_cast<float>(((2 * 9 + 7) * 8 + 5) * 12 + 10));
}

TEST(SpaceToDepth, DecodesWhatItEncodes) {
  const SpaceToDepth blocks{
      .block = 3, .temporal = 1, .regions = 2, .temporal_regions = 5, .shift = -0.8, .scale = 3};
  HostArray pixels(Shape{DType::F32, {3, 5, 6, 12}});
  std::iota(pixels.as<float>().begin(), pixels.as<float>().end(), -400.0F);
  for (float& x : pixels.as<float>()) {
    x /= 400;
  }

  const HostArray back = blocks.decode(blocks.encode(pixels));

  ASSERT_EQ(back.shape, pixels.shape);
  for (size_t i = 0; i < back.as<float>().size(); ++i) {
    // The latent (at most 5.4) is rounded once to f32, then divided by 3: an error of 2^-22 / 3 at
    // most.
    ASSERT_NEAR(back.as<float>()[i], pixels.as<float>()[i], 2.5e-7);
  }
}

TEST(SpaceToDepth, SaysWhatDoesNotDivide) {
  EXPECT_THAT([] { (void)SpaceToDepth{.block = 6}.latent_shape(9, 25, 24); },
              ThrowsMessage<Error>(HasSubstr("9 frames of 24x25")));
  EXPECT_THAT(
      [] {
        (void)SpaceToDepth{}.decode(HostArray(Shape{DType::F32, {5, 1, 1, 1}}));
      },
      ThrowsMessage<Error>(HasSubstr("f32 [108, f, h, w]")));
}

}  // namespace
}  // namespace kinema::data
