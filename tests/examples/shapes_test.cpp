#include "shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kinema/core/threefry.h"

namespace kinema::shapes {
namespace {

Scene scene(int colour, int shape, int direction) {
  return {.what = {colour, shape, direction}, .radius = 4, .x = 12, .y = 12, .travel = 3};
}

TEST(Shapes, AreMeasuredAsTheyWereDrawn) {
  for (int i = 0; i < 48; ++i) {
    const Combination c{i % 4, i / 4 % 3, i / 12};
    SCOPED_TRACE(i);
    const Seen seen = measure(render(scene(c.colour, c.shape, c.direction), 24, 5));

    EXPECT_EQ(seen.colour, c.colour);
    EXPECT_EQ(seen.shape, c.shape);
    EXPECT_EQ(seen.direction, c.direction);
    EXPECT_EQ(seen.coherent_frames, 1);
  }
}

TEST(Shapes, StandingStillIsNoDirection) {
  Scene still = scene(0, 0, 0);
  still.travel = 0.5;

  EXPECT_EQ(measure(render(still, 24, 5)).direction, std::nullopt);
}

TEST(Shapes, TwoPiecesAreNotCoherent) {
  HostArray frames = render(scene(1, 1, 0), 24, 3);
  const HostArray other =
      render({.what = {1, 1, 0}, .radius = 3, .x = 4, .y = 20, .travel = 0}, 24, 3);
  for (size_t i = 0; i < frames.bytes.size(); ++i) {
    frames.bytes[i] = std::max(frames.bytes[i], other.bytes[i]);
  }

  EXPECT_EQ(measure(frames).coherent_frames, 0);
}

TEST(Shapes, DarknessAndNoiseAreNotCoherent) {
  HostArray dark(Shape{DType::U8, {3, 24, 24, 3}});
  std::ranges::fill(dark.as<uint8_t>(), uint8_t{13});
  HostArray noise = dark;
  RandomStream random({1, 2});
  for (uint8_t& v : noise.as<uint8_t>()) {
    v = static_cast<uint8_t>(random.below(256));
  }

  EXPECT_EQ(measure(dark).colour, -1);
  EXPECT_EQ(measure(dark).coherent_frames, 0);
  EXPECT_EQ(measure(noise).coherent_frames, 0);
}

TEST(Shapes, ScoresOnlyWhatTheCaptionAsks) {
  const Seen seen = measure(render(scene(2, 0, 3), 24, 5));

  const Score all = score(parse_caption("A blue circle moving UP"), seen);
  EXPECT_EQ(all.colour, true);
  EXPECT_EQ(all.shape, true);
  EXPECT_EQ(all.direction, false);
  EXPECT_TRUE(all.coherent);
  const Score part = score(parse_caption("a red one"), seen);
  EXPECT_EQ(part.colour, false);
  EXPECT_EQ(part.shape, std::nullopt);
  EXPECT_EQ(part.direction, std::nullopt);
}

}  // namespace
}  // namespace kinema::shapes
