#include "kinema/sample/condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/models/flux/config_file.h"
#include "kinema/networks/open.h"
#include "networks/wan.h"

namespace kinema::sample {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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

/// Sizes of a Flux network with that many input channels and 16 output channels.
networks::Sizes flux(int64_t in) {
  constexpr int64_t kPatch = 4;  // latents of a token
  io::Json config = kinema::flux::config_json({});
  config.set("in_channels", kPatch * in).set("out_channels", kPatch * 16);
  return networks::from_config(config).sizes();
}

constexpr encoders::LatentLayout kVae{.channels = 16, .spatial = 8, .temporal = 4};
const VideoSizes kSizes{.num_frames = 9, .height = 4, .width = 4, .latents = {1, 3, 2, 2}};

/// The names of the inputs that are given.
std::vector<std::string> names_of(const networks::Sizes& network, bool expand_timesteps,
                                  const GivenFiles& files, const StartFrames& start = {}) {
  std::vector<std::string> out;
  for (const networks::NamedInput& input : given_inputs(network, expand_timesteps, files, start)) {
    out.emplace_back(input.name);
  }
  return out;
}

TEST(GivenInputs, AreThoseThatTheNetworkDeclaresAndTheFilesFill) {
  const GivenFiles none;
  const GivenFiles one{.images = {.first = plain(1), .last = {}}};
  const GivenFiles reference{.references = {plain(1)}};
  const auto wan = [](int64_t in, int64_t out) { return network_of(channels(in, out)).sizes(); };
  EXPECT_THAT(names_of(wan(16, 16), false, none), IsEmpty());
  EXPECT_THAT(names_of(wan(36, 16), false, one), ElementsAre("condition"));
  EXPECT_THAT(names_of(wan(16, 16), true, one), ElementsAre("first_frame"));
  EXPECT_THAT(names_of(wan(16, 16), true, none), IsEmpty());
  EXPECT_THAT(names_of(flux(16), false, none), IsEmpty());
  EXPECT_THAT(names_of(flux(16), false, reference), ElementsAre("reference"));
}

TEST(GivenInputs, SaysWhatDoesNotFit) {
  const GivenFiles none;
  const GivenFiles one{.images = {.first = plain(1), .last = {}}};
  const GivenFiles both{.images = {.first = plain(1), .last = plain(2)}};
  const auto message = [](const networks::Sizes& network, bool expand, const GivenFiles& files) {
    try {
      given_inputs(network, expand, files, {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const networks::Sizes text = network_of(channels(16, 16)).sizes();
  const networks::Sizes image = network_of(channels(36, 16)).sizes();
  EXPECT_THAT(message(image, false, none), HasSubstr("set image_url"));
  EXPECT_THAT(message(text, false, one), HasSubstr("starts from video=FILE"));
  EXPECT_THAT(message(text, true, both), HasSubstr("last_image_url must be empty"));
  EXPECT_THAT(message(image, false, {.images = {.first = {}, .last = plain(1)}}),
              HasSubstr("image_url is not"));
  EXPECT_THAT(message(text, false, {.references = {plain(1)}}), HasSubstr("no reference picture"));
  EXPECT_THAT(message(flux(16), false, {.references = {plain(1), plain(2)}}),
              HasSubstr("there are 2 reference pictures"));
  EXPECT_THAT(message(flux(32), false, none), HasSubstr("set control_image=FILE"));
  EXPECT_THAT(message(flux(96), false, none), HasSubstr("set image=FILE and mask=FILE"));
  EXPECT_THAT(message(flux(16), false, {.control_image = plain(1)}),
              HasSubstr("follows no control image"));
}

TEST(CheckChannels, ComparesTheAutoencodersWithThoseOfEachInput) {
  const auto check = [](const networks::Sizes& network) { check_channels(network, kVae, "vae"); };
  EXPECT_NO_THROW(check(network_of(channels(16, 16)).sizes()));
  EXPECT_NO_THROW(check(network_of(channels(36, 16)).sizes()));
  EXPECT_THAT([&] { check(network_of(channels(48, 48)).sizes()); },
              ThrowsMessage<Error>(HasSubstr("makes 16 channels, but the network takes 48")));
  for (const int64_t in : {16, 32, 96}) {  // text to image, Canny and Depth, Fill
    EXPECT_NO_THROW(check(flux(in))) << in;
  }
  EXPECT_THAT([&] { check(flux(48)); }, ThrowsMessage<Error>(HasSubstr("takes 48 and makes 16")));
}

TEST(NamedInputs, KnowTheSizesThatFit) {
  const networks::Sizes network = flux(16);
  const networks::NamedInput& reference = network.named.at(0);
  const Dims latents{2, 16, 1, 8, 6};
  EXPECT_TRUE(reference.fits({2, 16, 1, 4, 10}, latents));
  EXPECT_FALSE(reference.fits({2, 16, 2, 4, 10}, latents));
  EXPECT_FALSE(reference.fits({2, 15, 1, 4, 10}, latents));
  EXPECT_FALSE(reference.fits({1, 16, 1, 4, 10}, latents));
  const networks::Sizes canny = flux(32);
  EXPECT_TRUE(canny.named.at(0).fits({2, 16, 1, 8, 6}, latents));
  EXPECT_FALSE(canny.named.at(0).fits({2, 16, 1, 4, 10}, latents));
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

HostArray made(const networks::NamedInput& input, const GivenFiles& files,
               const VideoSizes& sizes) {
  const ZeroAutoencoder vae;
  return make_input({.input = input}, files, {}, sizes, vae, {});
}

TEST(MakeInput, HasTheSizesOfTheDeclaration) {
  const GivenFiles one{.images = {.first = plain(255), .last = {}}};
  const networks::NamedInput condition{.name = "condition", .channels = 5};
  const networks::NamedInput first{.name = "first_frame",
                                   .entry = networks::Entry::FIRST_FRAME,
                                   .made_of = networks::MadeOf::FIRST_IMAGE,
                                   .channels = 1};
  EXPECT_EQ(made(condition, one, kSizes).shape.dims, (Dims{1, 5, 3, 2, 2}));
  EXPECT_EQ(made(first, one, kSizes).shape.dims, (Dims{1, 1, 1, 2, 2}));
  VideoSizes other = kSizes;
  other.latents[1] = 4;
  EXPECT_THAT([&] { made(condition, one, other); },
              ThrowsMessage<Error>(HasSubstr("made f32[1,5,3,2,2] of the input `condition`")));
}

}  // namespace
}  // namespace kinema::sample
