#include "kinema/encoders/image_condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::encoders {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// For 4 k + 1 frames, one channel: the mean of each latent cell's pixels; records its inputs.
class MeanAutoencoder final : public Autoencoder {
 public:
  using Autoencoder::decode;
  std::string name() const override { return "mean"; }
  LatentLayout layout() const override {
    return {.channels = 1, .spatial = 2, .temporal = 4, .first_frame_alone = true};
  }
  HostArray encode(const HostArray& pixels) const override {
    given_ = pixels;
    const Dims& d = pixels.shape.dims;
    return HostArray(Shape{DType::F32, {1, (d[1] - 1) / 4 + 1, d[2] / 2, d[3] / 2}});
  }
  void decode(const HostArray&, const FrameSink&) const override {}

  mutable HostArray given_;
};

/// One token: the first byte of the image.
class FirstByte final : public ImageEncoder {
 public:
  Shape shape() const override { return {DType::F32, {1, 1}}; }
  HostArray encode(const HostArray& image) const override {
    const std::vector<float> value{static_cast<float>(image.as<uint8_t>()[0])};
    return HostArray::f32({1, 1}, value);
  }
};

HostArray plain(uint8_t value) {
  HostArray image(Shape{DType::U8, {4, 4, 3}});
  std::ranges::fill(image.as<uint8_t>(), value);
  return image;
}

constexpr PixelSizes kSizes{.num_frames = 9, .height = 4, .width = 4};

TEST(ImageCondition, MarksTheFramesThatAreGivenAndShowsGreyBetween) {
  const MeanAutoencoder vae;
  const ConditioningImages both{.first = plain(255), .last = plain(0)};

  const HostArray condition = image_condition(both, kSizes, vae);

  ASSERT_EQ(condition.shape.dims, (Dims{5, 3, 2, 2}));  // 4 frames per latent frame, 1 channel
  const auto values = condition.as<float>();
  for (int64_t channel = 0; channel < 4; ++channel) {
    for (int64_t frame = 0; frame < 3; ++frame) {
      // All of the first latent frame (its only frame is given), and the last frame of the last
      // one.
      const bool given = frame == 0 || (frame == 2 && channel == 3);
      EXPECT_EQ(values[(channel * 3 + frame) * 4], given ? 1.0F : 0.0F) << channel << frame;
    }
  }
  ASSERT_EQ(vae.given_.shape.dims, (Dims{3, 9, 4, 4}));
  EXPECT_EQ(vae.given_.as<float>()[0], 1.0F);
  EXPECT_EQ(vae.given_.as<float>()[4 * 16], 0.0F);
  EXPECT_EQ(vae.given_.as<float>()[8 * 16], -1.0F);
}

TEST(FirstFrameLatents, AreOneLatentFrame) {
  const MeanAutoencoder vae;
  EXPECT_EQ(first_frame_latents(plain(255), 4, 4, vae).shape.dims, (Dims{1, 1, 2, 2}));
  EXPECT_EQ(vae.given_.shape.dims, (Dims{3, 1, 4, 4}));
}

TEST(ImageCondition, OneFrameCannotBeTwoImages) {
  const MeanAutoencoder vae;
  const ConditioningImages both{.first = plain(255), .last = plain(0)};
  EXPECT_THAT([&] { image_condition(both, {.num_frames = 1, .height = 4, .width = 4}, vae); },
              ThrowsMessage<Error>(HasSubstr("one frame")));
}

TEST(ImageTokens, OfTheLastImageFollowThoseOfTheFirst) {
  const HostArray tokens = image_tokens({.first = plain(3), .last = plain(7)}, FirstByte());
  EXPECT_EQ(tokens.shape.dims, (Dims{2, 1}));
  EXPECT_EQ(tokens.as<float>()[0], 3.0F);
  EXPECT_EQ(tokens.as<float>()[1], 7.0F);
}

}  // namespace
}  // namespace kinema::encoders
