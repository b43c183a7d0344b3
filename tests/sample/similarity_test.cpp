#include "kinema/sample/similarity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "kinema/core/error.h"

namespace kinema::sample {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// The two videos of tools/golden/similarity.py.
std::pair<HostArray, HostArray> videos(int64_t frames, int64_t height, int64_t width) {
  std::pair<HostArray, HostArray> out;
  out.first = out.second = HostArray(Shape{DType::U8, {frames, height, width, 3}});
  uint8_t* a = out.first.as<uint8_t>().data();
  uint8_t* b = out.second.as<uint8_t>().data();
  for (int64_t t = 0; t < frames; ++t) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        for (int64_t c = 0; c < 3; ++c) {
          const int64_t first = (37 * t + 11 * y + 5 * x + 83 * c + t * y * x) % 256;
          *a++ = static_cast<uint8_t>(first);
          *b++ = static_cast<uint8_t>((first + (13 * t * y + 7 * x * c) % 29) % 256);
        }
      }
    }
  }
  return out;
}

// A window's sums are exact here and rounded a few hundred times there, each by 2^-53 of numbers
// whose differences are up to 1e4 times smaller.
constexpr double kTolerance = 1e-10;

TEST(Similarity, IsWhatScikitImageHas) {
  const auto [a, b] = videos(8, 12, 10);
  EXPECT_NEAR(structural_similarity(a, b), 0.6829349078366365, kTolerance);
  EXPECT_NEAR(peak_signal_to_noise(a, b), 12.991614289050071, kTolerance);
}

TEST(Similarity, ASingleWindowIsOne) {
  const auto [a, b] = videos(7, 7, 7);
  EXPECT_NEAR(structural_similarity(a, b), 0.6631454131438629, kTolerance);
  EXPECT_NEAR(peak_signal_to_noise(a, b), 12.39310282957768, kTolerance);
}

TEST(Similarity, ASingleFrameHasWindowsOfRowsAndColumns) {
  const auto [a, b] = videos(1, 16, 9);
  EXPECT_NEAR(structural_similarity(a, b), 0.6678376037764969, kTolerance);
  EXPECT_NEAR(peak_signal_to_noise(a, b), 12.514137195363194, kTolerance);
}

TEST(Similarity, ByHandForWindowsOfOneValue) {
  // Two frames of a pixel: windows of one value have no variance, and the mean of both windows is
  // (2 x y + c1) / (x^2 + y^2 + c1) with c1 = 2.55^2.
  HostArray a(Shape{DType::U8, {2, 1, 1, 1}});
  HostArray b = a;
  a.as<uint8_t>()[0] = 10;
  b.as<uint8_t>()[0] = 20;
  a.as<uint8_t>()[1] = b.as<uint8_t>()[1] = 200;
  const double c1 = 2.55 * 2.55;
  EXPECT_NEAR(structural_similarity(a, b), ((400 + c1) / (500 + c1) + 1) / 2, 1e-14);
  EXPECT_NEAR(peak_signal_to_noise(a, b), 10 * std::log10(255.0 * 255.0 / 50), 1e-12);
}

TEST(Similarity, EqualVideosAreAsAlikeAsCanBe) {
  const auto [a, b] = videos(9, 8, 8);
  EXPECT_NEAR(structural_similarity(a, a), 1, 1e-12);
  EXPECT_TRUE(std::isinf(peak_signal_to_noise(b, b)));
}

TEST(Similarity, RefusesVideosOfDifferentSizes) {
  const HostArray a = videos(2, 8, 8).first;
  const HostArray b = videos(2, 8, 9).first;
  EXPECT_THAT([&] { structural_similarity(a, b); }, ThrowsMessage<Error>(HasSubstr("[2,8,9,3]")));
  EXPECT_THAT([&] { peak_signal_to_noise(a, b); }, ThrowsMessage<Error>(HasSubstr("compared")));
}

}  // namespace
}  // namespace kinema::sample
