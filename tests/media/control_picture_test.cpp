#include "kinema/media/control_picture.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::media {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Kind = ControlRecipe::Kind;

/// A picture [h, w, 3] of a formula of row, column and channel.
template <typename F>
HostArray picture(int64_t h, int64_t w, const F& value) {
  HostArray out(Shape{DType::U8, {h, w, 3}});
  for (int64_t i = 0; i < h * w * 3; ++i) {
    out.as<uint8_t>()[i] = static_cast<uint8_t>(value(i / 3 / w, i / 3 % w, i % 3));
  }
  return out;
}

/// Rows of `#` where the picture is white and `.` where it is black.
std::vector<std::string> rows_of(const HostArray& made) {
  const int64_t w = made.shape.dims[1];
  std::vector<std::string> out(static_cast<size_t>(made.shape.dims[0]));
  for (int64_t i = 0; i < std::ssize(made.as<uint8_t>()); i += 3) {
    out[static_cast<size_t>(i / 3 / w)] += made.as<uint8_t>()[i] == 0 ? '.' : '#';
  }
  return out;
}

// A slanted bright shape on a gradient, with noise of a formula: the expected edges are those of
// OpenCV's Canny with the same thresholds.
HostArray shape_on_gradient() {
  return picture(16, 24, [](int64_t y, int64_t x, int64_t c) {
    const int64_t inside = 2 * y + x > 14 && x - y < 12 && y < 13 ? 150 : 0;
    return (4 * x + 3 * y + 7 * c + inside * (c == 2 ? 1 : 3) / 3 + (x * 7 + y * 13) % 5) % 256;
  });
}

const std::vector<std::string> kEdges{
    "........................", "............#...........", "..........##.##.........",
    "........##....##........", "......##.......##.......", "....##..........##......",
    "..##.............##.....", "##................#.....", "........................",
    ".....................#..", ".....................##.", "................#.....##",
    "####..###..###.##..###..", "....##...##...#........#", "........................",
    "........................",
};
const std::vector<std::string> kStrongEdges{
    "........................", "............#...........", "..........##.##.........",
    "........##....##........", "......##.......##.......", "....##..........##......",
    "..##.............##.....", "##................#.....", "........................",
    ".....................#..", ".....................##.", "................#.....##",
    "####..###..###.##..###..", "....##...##...#.........", "........................",
    "........................",
};

TEST(ControlPicture, EdgesAreThoseOfOpenCv) {
  const HostArray made =
      control_picture(shape_on_gradient(), {.kind = Kind::CANNY, .low = 100, .high = 200});
  EXPECT_THAT(rows_of(made), ElementsAreArray(kEdges));
  const HostArray few =
      control_picture(shape_on_gradient(), {.kind = Kind::CANNY, .low = 250, .high = 500});
  EXPECT_THAT(rows_of(few), ElementsAreArray(kStrongEdges));
}

TEST(ControlPicture, HasNoEdgesWithoutChanges) {
  const HostArray flat = picture(5, 7, [](int64_t, int64_t, int64_t) { return 90; });
  const HostArray made = control_picture(flat, {.kind = Kind::CANNY});
  EXPECT_TRUE(std::ranges::all_of(made.as<uint8_t>(), [](uint8_t v) { return v == 0; }));
  const HostArray dot = picture(1, 1, [](int64_t, int64_t, int64_t) { return 255; });
  EXPECT_EQ(control_picture(dot, {.kind = Kind::CANNY}).as<uint8_t>()[0], 0);
}

TEST(ControlPicture, BlursByAGaussian) {
  const HostArray line =
      picture(1, 41, [](int64_t, int64_t x, int64_t) { return x < 20 ? 0 : 200; });
  const HostArray made = control_picture(line, {.kind = Kind::BLUR, .deviation = 3.0});
  for (int64_t x = 5; x < 36; ++x) {
    // The integral of the Gaussian, which is cut off at 2.5 deviations: 1 % of its weight.
    const double part =
        0.5 * (1.0 + std::erf((static_cast<double>(x) - 19.5) / (3.0 * std::sqrt(2.0))));
    EXPECT_NEAR(made.as<uint8_t>()[3 * x], 200.0 * part, 3.0) << x;
  }
}

TEST(ControlPicture, TakesTheLuminance) {
  const HostArray colours =
      picture(1, 3, [](int64_t, int64_t x, int64_t c) { return x == c ? 255 : 0; });
  const HostArray made = control_picture(colours, {.kind = Kind::GREY});
  EXPECT_EQ(made.as<uint8_t>()[0], 76);  // 0.299, 0.587 and 0.114 of 255
  EXPECT_EQ(made.as<uint8_t>()[3], 150);
  EXPECT_EQ(made.as<uint8_t>()[6], 29);
  EXPECT_EQ(made.as<uint8_t>()[7], 29);
}

TEST(ControlPicture, KeepsCoarseStructureOfATile) {
  const HostArray fine =
      picture(32, 32, [](int64_t y, int64_t x, int64_t) { return (x + y) % 2 == 0 ? 255 : 0; });
  const HostArray made = control_picture(fine, {.kind = Kind::TILE});
  EXPECT_EQ(made.shape, fine.shape);
  for (const uint8_t value : made.as<uint8_t>()) {
    EXPECT_NEAR(value, 127.5, 6.0);  // Lanczos leaves a little of the pattern at the edges
  }
  const HostArray small = picture(2, 3, [](int64_t, int64_t, int64_t) { return 9; });
  EXPECT_EQ(control_picture(small, {.kind = Kind::TILE}).as<uint8_t>()[0], 9);
}

TEST(ControlPicture, NamesTheToolsOfOtherKinds) {
  EXPECT_EQ(control_kind("given"), Kind::GIVEN);
  EXPECT_THAT([] { control_kind("openpose"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("is not made here"), HasSubstr("DWPose"))));
  EXPECT_THAT([] { control_kind("Canny"); },
              ThrowsMessage<Error>(HasSubstr("expected given, canny, tile, blur or grey")));
}

}  // namespace
}  // namespace kinema::media
