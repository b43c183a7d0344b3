#include "kinema/cli/drawing.h"

#include <gmock/gmock.h>

#include <limits>

namespace kinema::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Curve, FallsFromItsLargestToItsSmallestValue) {
  // 2 columns and 1 row of characters: 4 columns and 4 rows of dots. Dot column x has a dot in row
  // x and in the row before it, so that the curve is connected: bits 01 | 08 10, then 02 04 | 20
  // 80.
  const std::vector<double> values{3, 2, 1, 0};
  EXPECT_THAT(curve_lines(values, 13, 1), ElementsAre("         3 ⠙⢦"));
  EXPECT_THAT(curve_lines(values, 13, 2), SizeIs(2));
}

TEST(Curve, IsALineForOneValueAndSkipsNonFiniteOnes) {
  EXPECT_THAT(curve_lines(std::vector<double>{0.5}, 13, 1), ElementsAre("       0.5 ⣀⣀"));
  EXPECT_EQ(curve_lines(std::vector<double>{kNan, 1, 0, kNan}, 20, 3),
            curve_lines(std::vector<double>{1, 0}, 20, 3));
}

TEST(Curve, HasTheRequestedNumberOfLines) {
  std::vector<double> values;
  for (int i = 0; i < 10000; ++i) {
    values.push_back(i % 17);
  }
  EXPECT_THAT(curve_lines(values, 80, 7), SizeIs(7));
}

TEST(Curve, IsEmptyWithoutValuesOrSpace) {
  EXPECT_THAT(curve_lines({}, 80, 5), IsEmpty());
  EXPECT_THAT(curve_lines(std::vector<double>{kNan}, 80, 5), IsEmpty());
  EXPECT_THAT(curve_lines(std::vector<double>{1, 2}, 5, 5), IsEmpty());
  EXPECT_THAT(curve_lines(std::vector<double>{1, 2}, 80, 0), IsEmpty());
}

TEST(Picture, HasTwoPixelsInACharacter) {
  HostArray image({DType::U8, {2, 1, 3}});
  const std::vector<uint8_t> pixels{255, 0, 0, 0, 0, 255};
  std::copy(pixels.begin(), pixels.end(), image.as<uint8_t>().begin());
  EXPECT_THAT(picture_lines(image, 10, 10),
              ElementsAre("\x1b[38;2;255;0;0m\x1b[48;2;0;0;255m\u2580\x1b[0m"));
}

TEST(Picture, FitsIntoItsRoom) {
  const HostArray image({DType::U8, {300, 700, 3}});
  EXPECT_THAT(picture_lines(image, 70, 100), SizeIs(15));
  EXPECT_THAT(picture_lines(image, 700, 10), SizeIs(10));
  EXPECT_THAT(picture_lines(HostArray({DType::U8, {1, 4000, 3}}), 80, 10), SizeIs(1));
}

}  // namespace
}  // namespace kinema::cli
