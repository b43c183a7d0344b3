#include "sample/condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/error.h"

namespace kinema::sample {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Frames 4 k + 1, one channel: the mean of each latent cell's pixels, and what it was given.
class MeanAutoencoder final : public encoders::Autoencoder {
 public:
  using Autoencoder::decode;
  std::string name() const override { return "mean"; }
  encoders::LatentLayout layout() const override {
    return {.channels = 1, .spatial = 2, .temporal = 4, .first_frame_alone = true};
  }
  HostArray encode(const HostArray& pixels) const override {
    given_ = pixels;
    const Dims& d = pixels.shape.dims;
    return HostArray(Shape{DType::F32, {1, (d[1] - 1) / 4 + 1, d[2] / 2, d[3] / 2}});
  }
  void decode(const HostArray&, const encoders::FrameSink&) const override {}

  mutable HostArray given_;
};

/// One token: the first byte of the image.
class FirstByte final : public encoders::ImageEncoder {
 public:
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

wan::TransformerConfig channels(int64_t in, int64_t out) {
  wan::TransformerConfig config;
  config.in_channels = in;
  config.out_channels = out;
  return config;
}

constexpr encoders::LatentLayout kVae{.channels = 16, .spatial = 8, .temporal = 4};
const VideoSizes kSizes{.num_frames = 9, .height = 4, .width = 4, .latents = {1, 3, 2, 2}};

TEST(ConditionOf, FollowsFromTheTransformersChannels) {
  const GivenImages none;
  const GivenImages one{.first = plain(1), .last = {}};
  EXPECT_EQ(condition_of(channels(16, 16), kVae, false, none), Condition::NONE);
  EXPECT_EQ(condition_of(channels(36, 16), kVae, false, one), Condition::CHANNELS);
  EXPECT_EQ(condition_of(channels(16, 16), kVae, true, one), Condition::FIRST_FRAME);
  EXPECT_EQ(condition_of(channels(16, 16), kVae, true, none), Condition::NONE);
}

TEST(ConditionOf, SaysWhatDoesNotFit) {
  const GivenImages none;
  const GivenImages one{.first = plain(1), .last = {}};
  const GivenImages both{.first = plain(1), .last = plain(2)};
  const auto message = [](int64_t in, int64_t out, bool expand, const GivenImages& images) {
    try {
      condition_of(channels(in, out), kVae, expand, images);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(48, 48, false, none), HasSubstr("makes 16 channels, but the transformer"));
  EXPECT_THAT(message(36, 16, false, none), HasSubstr("give one with image_url"));
  EXPECT_THAT(message(16, 16, false, one), HasSubstr("text alone"));
  EXPECT_THAT(message(16, 16, true, both), HasSubstr("last_image_url must be empty"));
  EXPECT_THAT(message(36, 16, false, {.first = {}, .last = plain(1)}), HasSubstr("no first one"));
}

TEST(CheckImageTokens, AsksForAsManyImagesAsThereArePositionsFor) {
  wan::TransformerConfig config = channels(36, 16);
  config.image_dim = 8;
  const GivenImages one{.first = plain(1), .last = {}};
  const GivenImages both{.first = plain(1), .last = plain(2)};
  EXPECT_NO_THROW(check_image_tokens(config, true, one));
  EXPECT_THROW(check_image_tokens(config, true, both), Error);
  EXPECT_THROW(check_image_tokens(config, false, one), Error);
  config.pos_embed_seq_len = 2;
  EXPECT_NO_THROW(check_image_tokens(config, true, both));
  EXPECT_THROW(check_image_tokens(config, true, one), Error);
  config.image_dim = 0;
  EXPECT_NO_THROW(check_image_tokens(config, false, both));
}

TEST(ImageCondition, MarksTheFramesThatAreGivenAndShowsGreyBetween) {
  const MeanAutoencoder vae;
  const GivenImages both{.first = plain(255), .last = plain(0)};

  const HostArray condition = image_condition(Condition::CHANNELS, both, kSizes, vae);

  ASSERT_EQ(condition.shape.dims, (Dims{5, 3, 2, 2}));  // 4 frames of a latent frame, 1 channel
  const auto values = condition.as<float>();
  for (int64_t channel = 0; channel < 4; ++channel) {
    for (int64_t frame = 0; frame < 3; ++frame) {
      // All of the first latent frame (its one frame is given), the last frame of the last one.
      const bool given = frame == 0 || (frame == 2 && channel == 3);
      EXPECT_EQ(values[(channel * 3 + frame) * 4], given ? 1.0F : 0.0F) << channel << frame;
    }
  }
  ASSERT_EQ(vae.given_.shape.dims, (Dims{3, 9, 4, 4}));
  EXPECT_EQ(vae.given_.as<float>()[0], 1.0F);
  EXPECT_EQ(vae.given_.as<float>()[4 * 16], 0.0F);
  EXPECT_EQ(vae.given_.as<float>()[8 * 16], -1.0F);
}

TEST(ImageCondition, AFirstFrameAloneIsOneLatentFrame) {
  const MeanAutoencoder vae;
  const GivenImages one{.first = plain(255), .last = {}};
  EXPECT_EQ(image_condition(Condition::FIRST_FRAME, one, kSizes, vae).shape.dims,
            (Dims{1, 1, 2, 2}));
  EXPECT_EQ(vae.given_.shape.dims, (Dims{3, 1, 4, 4}));
  EXPECT_TRUE(image_condition(Condition::NONE, {}, kSizes, vae).bytes.empty());
}

TEST(ImageCondition, OneFrameCannotBeTwoImages) {
  const MeanAutoencoder vae;
  const GivenImages both{.first = plain(255), .last = plain(0)};
  const VideoSizes still{.num_frames = 1, .height = 4, .width = 4, .latents = {1, 1, 2, 2}};
  EXPECT_THAT([&] { image_condition(Condition::CHANNELS, both, still, vae); },
              ThrowsMessage<Error>(HasSubstr("one frame")));
}

TEST(ImageTokens, OfTheLastImageComeBehindThoseOfTheFirst) {
  const HostArray tokens = image_tokens({.first = plain(3), .last = plain(7)}, FirstByte());
  EXPECT_EQ(tokens.shape.dims, (Dims{2, 1}));
  EXPECT_EQ(tokens.as<float>()[0], 3.0F);
  EXPECT_EQ(tokens.as<float>()[1], 7.0F);
}

}  // namespace
}  // namespace kinema::sample
