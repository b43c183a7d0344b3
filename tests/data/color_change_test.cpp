#include "kinema/data/color_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "data/clip_folder.h"
#include "kinema/core/error.h"
#include "kinema/data/video_source.h"

namespace kinema::data {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

/// A colour of [0, 1] after a change.
std::vector<float> changed(std::array<float, 3> rgb, const ColorChange& change) {
  HostArray pixels(Shape{DType::F32, {3, 1, 1, 1}});
  for (size_t c = 0; c < 3; ++c) {
    pixels.as<float>()[c] = 2 * rgb[c] - 1;
  }
  const HostArray out = with_colors(std::move(pixels), change);
  std::vector<float> levels;
  for (const float value : out.as<float>()) {
    levels.push_back((value + 1) / 2);
  }
  return levels;
}

auto are(float red, float green, float blue) {
  constexpr float kRounding = 1e-6F;  // of few float operations on values up to 2
  return ElementsAre(FloatNear(red, kRounding), FloatNear(green, kRounding),
                     FloatNear(blue, kRounding));
}

TEST(ColorChange, TurnsTheHue) {
  EXPECT_THAT(changed({1, 0, 0}, {.hue = 120}), are(0, 1, 0));
  EXPECT_THAT(changed({1, 0, 0}, {.hue = -120}), are(0, 0, 1));
  EXPECT_THAT(changed({1, 0, 0}, {.hue = 15}), are(1, 0.25, 0));
  EXPECT_THAT(changed({0.5, 0.25, 0.25}, {.hue = 60}), are(0.5, 0.5, 0.25));
  EXPECT_THAT(changed({0.25, 0.5, 0.75}, {.hue = 360}), are(0.25, 0.5, 0.75));
  EXPECT_THAT(changed({0.3, 0.3, 0.3}, {.hue = 77}), are(0.3, 0.3, 0.3));
}

TEST(ColorChange, ChangesTheGamma) {
  EXPECT_THAT(changed({0, 0.5, 1}, {.gamma = 2}), are(0, 0.25, 1));
  EXPECT_THAT(changed({0.2, 0.5, 0.7}, {}), are(0.2, 0.5, 0.7));
}

TEST(ColorChange, IsDrawnForAThirdOfTheSamples) {
  int hues = 0;
  int gammas = 0;
  constexpr int kDraws = 6000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    RandomStream random(random_key(5, "a test", i));
    const ColorChange change = draw_color_change(random);
    EXPECT_TRUE(change.hue == 0 || change.gamma == 1);
    EXPECT_LE(std::abs(change.hue), 16);
    EXPECT_LE(std::abs(change.gamma - 1), 0.05F + 1e-6F);
    hues += change.hue != 0 ? 1 : 0;
    gammas += change.gamma != 1 ? 1 : 0;
  }
  // Binomial with p = 0.165: five standard deviations.
  const double wanted = 0.165 * kDraws;
  const double deviation = std::sqrt(wanted * (1 - 0.165));
  EXPECT_NEAR(hues, wanted, 5 * deviation);
  EXPECT_NEAR(gammas, wanted, 5 * deviation);
}

TEST(ColorChange, OfASampleDependsOnSeedAndPosition) {
  const ClipFolder folder;
  HostArray pixels(Shape{DType::U8, {16, 16, 3}});
  for (size_t i = 0; i < pixels.bytes.size(); ++i) {
    pixels.as<uint8_t>()[i] = static_cast<uint8_t>(60 + 50 * (i % 3));
  }
  folder.image("a.png");
  media::write_png(folder / "a.png", pixels);
  VideoOptions options{.format = {.height = 16, .width = 16, .num_frames = 1}, .seed = 4};
  const auto open = [&](bool changes) {
    options.color_change = changes;
    return video_source(folder_clips(folder.path(), "text"), options, [](const Clip& clip) {
      return Sample{.latents = clip.pixels, .encoder_hidden_states = {}};
    });
  };
  const auto first = open(true);
  const auto second = open(true);
  const HostArray plain = open(false)->at(0).latents;
  int differs = 0;
  for (int64_t position = 39; position >= 0; --position) {
    const HostArray latents = first->at(position).latents;
    EXPECT_EQ(latents.bytes, second->at(position).latents.bytes);
    differs += latents.bytes != plain.bytes ? 1 : 0;
  }
  EXPECT_GT(differs, 3);
  EXPECT_LT(differs, 27);
  EXPECT_THROW(encoded_source(folder_clips(folder.path(), "text"),
                              {.format = options.format, .color_change = true}, {}),
               Error);
}

}  // namespace
}  // namespace kinema::data
