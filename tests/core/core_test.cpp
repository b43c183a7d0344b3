#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "kinema/core/bf16.h"
#include "kinema/core/error.h"
#include "kinema/core/shape.h"
#include "kinema/core/threefry.h"

namespace kinema {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Shape, PrintsForMessagesAndForStableHlo) {
  const Shape shape{DType::BF16, {1, 20, 128}};

  EXPECT_EQ(to_string(shape), "bf16[1,20,128]");
  EXPECT_EQ(mlir_type(shape), "tensor<1x20x128xbf16>");
  EXPECT_EQ(mlir_type({DType::U32, {}}), "tensor<ui32>");
  EXPECT_EQ(shape.bytes(), 5120);
}

TEST(Shape, ResolvesAxesFromBothEnds) {
  const Shape shape{DType::F32, {2, 3, 4}};

  EXPECT_EQ(resolve_axis(Axis(-1), shape, "sum"), 2);
  EXPECT_EQ(resolve_axis(Axis(0), shape, "sum"), 0);
  EXPECT_THAT([&] { resolve_axis(Axis(3), shape, "sum"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("[sum] axis 3"), HasSubstr("f32[2,3,4]"))));
}

TEST(Shape, RefusesSizesWhoseProductOverflows) {
  EXPECT_EQ(checked_elements({3, 0, 5}), 0);
  EXPECT_THROW(checked_elements({int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_THROW(checked_elements({2, -1}), Error);
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0F), 0x3f80);
  EXPECT_EQ(f32_to_bf16(1.00390625F), 0x3f80);  // halfway between 1 and 1 + 2^-7: to even
  EXPECT_EQ(f32_to_bf16(1.01171875F), 0x3f82);  // halfway, odd below: up
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(F16, RoundTripsEveryHalfAndRoundsToNearestEven) {
  for (uint32_t h = 0; h < 0x10000U; ++h) {
    const float x = f16_to_f32(static_cast<uint16_t>(h));
    if (!std::isnan(x)) {
      ASSERT_EQ(f32_to_f16(x), h);
    }
  }
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7c00);
  EXPECT_EQ(f32_to_f16(1.00048828125F), 0x3c00);  // halfway: to even
}

// Known-answer vectors of the Random123 distribution (kat_vectors, threefry2x32 20).
TEST(Threefry, MatchesTheKnownAnswers) {
  using Words = std::array<uint32_t, 2>;
  EXPECT_EQ(threefry2x32({0, 0}, {0, 0}), (Words{0x6b200159U, 0x99ba4efeU}));
  EXPECT_EQ(threefry2x32({0xffffffffU, 0xffffffffU}, {0xffffffffU, 0xffffffffU}),
            (Words{0x1cb996fcU, 0xbb002be7U}));
  EXPECT_EQ(threefry2x32({0x13198a2eU, 0x03707344U}, {0x243f6a88U, 0x85a308d3U}),
            (Words{0xc4923a9cU, 0x483df7a0U}));
}

TEST(RandomStream, HasUniformAndNormalMoments) {
  RandomStream stream(random_key(7, "test"));
  constexpr int kCount = 100000;
  double sum = 0.0;
  double squares = 0.0;
  double uniform = 0.0;
  for (int i = 0; i < kCount; ++i) {
    const double z = stream.normal();
    sum += z;
    squares += z * z;
    uniform += stream.uniform();
  }
  // Five standard errors: 1/sqrt(n), sqrt(2/n), sqrt(1/12n).
  EXPECT_NEAR(sum / kCount, 0.0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1.0, 5 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(uniform / kCount, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
}

}  // namespace
}  // namespace kinema
