#include "kinema/sample/condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kinema/core/error.h"
#include "networks/wan.h"

namespace kinema::sample {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Frames 4 k + 1 and one channel, all zero.
class ZeroAutoencoder final : public encoders::Autoencoder {
 public:
  using Autoencoder::decode;
  std::string name() const override { return "zero"; }
  encoders::LatentLayout layout() const override {
    return {.channels = 1, .spatial = 2, .temporal = 4, .first_frame_alone = true};
  }
  HostArray encode(const HostArray& pixels) const override {
    const Dims& d = pixels.shape.dims;
    return HostArray(Shape{DType::F32, {1, (d[1] - 1) / 4 + 1, d[2] / 2, d[3] / 2}});
  }
  void decode(const HostArray&, const encoders::FrameSink&) const override {}
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
  const ConditioningImages none;
  const ConditioningImages one{.first = plain(1), .last = {}};
  EXPECT_EQ(detect_condition(network_of(channels(16, 16)).sizes(), kVae, false, none),
            Condition::NONE);
  EXPECT_EQ(detect_condition(network_of(channels(36, 16)).sizes(), kVae, false, one),
            Condition::CHANNELS);
  EXPECT_EQ(detect_condition(network_of(channels(16, 16)).sizes(), kVae, true, one),
            Condition::FIRST_FRAME);
  EXPECT_EQ(detect_condition(network_of(channels(16, 16)).sizes(), kVae, true, none),
            Condition::NONE);
}

TEST(ConditionOf, SaysWhatDoesNotFit) {
  const ConditioningImages none;
  const ConditioningImages one{.first = plain(1), .last = {}};
  const ConditioningImages both{.first = plain(1), .last = plain(2)};
  const auto message = [](int64_t in, int64_t out, bool expand, const ConditioningImages& images) {
    try {
      detect_condition(network_of(channels(in, out)).sizes(), kVae, expand, images);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(48, 48, false, none), HasSubstr("makes 16 channels, but the transformer"));
  EXPECT_THAT(message(36, 16, false, none), HasSubstr("set image_url"));
  EXPECT_THAT(message(16, 16, false, one), HasSubstr("starts from video=FILE"));
  EXPECT_THAT(message(16, 16, true, both), HasSubstr("last_image_url must be empty"));
  EXPECT_THAT(message(36, 16, false, {.first = {}, .last = plain(1)}),
              HasSubstr("image_url is not"));
}

TEST(ImageChannelsOf, AreKnownByTheirNumber) {
  const auto of = [](int64_t in, int64_t out) {
    return image_channels({.in_channels = in, .out_channels = out, .makes_images = true},
                          {.channels = 16, .spatial = 8, .temporal = 1});
  };
  EXPECT_EQ(of(16, 16), ImageChannels::NONE);
  EXPECT_EQ(of(33, 16), ImageChannels::MASK_AND_KEPT);
  EXPECT_EQ(of(32, 16), ImageChannels::CONTROL);
  EXPECT_EQ(of(96, 16), ImageChannels::KEPT_AND_MASK);
  EXPECT_THAT([&] { of(48, 16); }, ThrowsMessage<Error>(HasSubstr("takes 48 and makes 16")));
  EXPECT_THAT([&] { of(16, 8); }, ThrowsMessage<Error>(HasSubstr("different models")));
}

TEST(CheckImageTokens, ExpectsOneImagePerPosition) {
  networks::Sizes network{.image_dim = 8};
  const ConditioningImages one{.first = plain(1), .last = {}};
  const ConditioningImages both{.first = plain(1), .last = plain(2)};
  EXPECT_NO_THROW(check_image_tokens(network, true, one));
  EXPECT_THROW(check_image_tokens(network, true, both), Error);
  EXPECT_THROW(check_image_tokens(network, false, one), Error);
  network.takes_last_image = true;
  EXPECT_NO_THROW(check_image_tokens(network, true, both));
  EXPECT_THROW(check_image_tokens(network, true, one), Error);
  network.image_dim = 0;
  EXPECT_NO_THROW(check_image_tokens(network, false, both));
}

TEST(ImageCondition, IsWhatTheKindSays) {
  const ZeroAutoencoder vae;
  const ConditioningImages one{.first = plain(255), .last = {}};
  EXPECT_EQ(image_condition(Condition::CHANNELS, one, kSizes, vae).shape.dims, (Dims{5, 3, 2, 2}));
  EXPECT_EQ(image_condition(Condition::FIRST_FRAME, one, kSizes, vae).shape.dims,
            (Dims{1, 1, 2, 2}));
  EXPECT_TRUE(image_condition(Condition::NONE, {}, kSizes, vae).bytes.empty());
}

TEST(ImageCondition, OfOtherSizesThanTheVideosIsRefused) {
  const ZeroAutoencoder vae;
  VideoSizes other = kSizes;
  other.latents[1] = 4;
  EXPECT_THAT(
      [&] { image_condition(Condition::CHANNELS, {.first = plain(1), .last = {}}, other, vae); },
      ThrowsMessage<Error>(HasSubstr("made a condition f32[5,3,2,2]")));
}

}  // namespace
}  // namespace kinema::sample
