#include "kinema/core/f8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kinema/core/dtype.h"
#include "kinema/core/host_array.h"
#include "kinema/core/threefry.h"

namespace kinema {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Format {
  DType dtype;
  int mantissa;
  int bias;
  int finite;      // codes from 0 that are finite
  float halfway;   // between the largest value and the next one, if there was one
  uint8_t beyond;  // the code for anything larger
  float (*decode)(uint8_t);
  uint8_t (*encode)(float);
  uint8_t (*saturate)(float);
};

const Format kFormats[] = {
    {DType::F8E4M3FN, 3, 7, 0x7f, 464.0F, 0x7f, f8e4m3fn_to_f32, f32_to_f8e4m3fn,
     f32_to_f8e4m3fn_saturated},
    {DType::F8E5M2, 2, 15, 0x7c, 61440.0F, 0x7c, f8e5m2_to_f32, f32_to_f8e5m2,
     f32_to_f8e5m2_saturated},
};

// (1 + m / 2^mantissa) 2^(e - bias), and m 2^(1 - bias - mantissa) where e is 0.
double value_of(const Format& format, int code) {
  const int scale = 1 << format.mantissa;
  const int exponent = code / scale;
  const double fraction = static_cast<double>(code % scale) / scale;
  return exponent == 0 ? std::ldexp(fraction, 1 - format.bias)
                       : std::ldexp(1 + fraction, exponent - format.bias);
}

TEST(F8, EveryCodeRoundTrips) {
  for (const Format& format : kFormats) {
    SCOPED_TRACE(to_string(format.dtype));
    for (int code = 0; code < 0x80; ++code) {
      for (const int sign : {0, 0x80}) {
        const auto byte = static_cast<uint8_t>(code | sign);
        const float x = format.decode(byte);
        EXPECT_EQ(std::signbit(x), sign != 0) << code;
        if (code < format.finite) {
          EXPECT_EQ(std::abs(x), value_of(format, code)) << code;
          EXPECT_EQ(format.encode(x), byte);
          EXPECT_EQ(format.saturate(x), byte);
        } else if (format.dtype == DType::F8E5M2 && code == 0x7c) {
          EXPECT_TRUE(std::isinf(x));
          EXPECT_EQ(format.encode(x), byte);
        } else {
          EXPECT_TRUE(std::isnan(x)) << code;
          EXPECT_TRUE(std::isnan(format.decode(format.encode(x)))) << code;
          EXPECT_TRUE(std::isnan(format.decode(format.saturate(x)))) << code;
        }
      }
    }
  }
  EXPECT_EQ(f8e4m3fn_to_f32(0x7e), 448.0F);
  EXPECT_EQ(f8e5m2_to_f32(0x7b), 57344.0F);
  EXPECT_EQ(f8e4m3fn_to_f32(0x01), 0x1p-9F);
  EXPECT_EQ(f8e5m2_to_f32(0x01), 0x1p-16F);
}

// One F32 step away from the middle of two codes decides the rounding, so an intermediate rounding
// to f16 (11 bits of mantissa) would show.
TEST(F8, RoundsToTheNearestCodeAndFromTheMiddleToTheEvenOne) {
  for (const Format& format : kFormats) {
    SCOPED_TRACE(to_string(format.dtype));
    for (int code = 0; code + 1 < format.finite; ++code) {
      const auto middle =
          static_cast<float>((value_of(format, code) + value_of(format, code + 1)) / 2);
      const int even = code % 2 == 0 ? code : code + 1;
      for (const int sign : {0, 0x80}) {
        const float s = sign == 0 ? 1.0F : -1.0F;
        EXPECT_EQ(format.encode(s * middle), even | sign) << code;
        EXPECT_EQ(format.encode(s * std::nextafter(middle, 0.0F)), code | sign) << code;
        EXPECT_EQ(format.encode(s * std::nextafter(middle, kInf)), (code + 1) | sign) << code;
      }
    }
  }
}

TEST(F8, OverflowBecomesInfinityNanOrTheLargestByFormat) {
  for (const Format& format : kFormats) {
    SCOPED_TRACE(to_string(format.dtype));
    const auto largest = static_cast<uint8_t>(format.finite - 1);
    EXPECT_EQ(format.encode(std::nextafter(format.halfway, 0.0F)), largest);
    // The largest e4m3fn is even in its last bit, so the middle rounds to it; e5m2's is odd.
    EXPECT_EQ(format.encode(format.halfway), largest % 2 == 0 ? largest : format.beyond);
    for (const float x : {std::nextafter(format.halfway, kInf), 1e5F, 1e38F, kInf}) {
      EXPECT_EQ(format.encode(x), format.beyond) << x;
      EXPECT_EQ(format.encode(-x), format.beyond | 0x80) << x;
      EXPECT_EQ(format.saturate(x), largest) << x;
      EXPECT_EQ(format.saturate(-x), largest | 0x80) << x;
    }
  }
}

TEST(F8, UnderflowBecomesSignedZero) {
  for (const Format& format : kFormats) {
    for (const float x : {0.0F, 1e-45F, 1e-38F, 1e-20F}) {
      EXPECT_EQ(format.encode(x), 0);
      EXPECT_EQ(format.encode(-x), 0x80);
    }
  }
}

TEST(F8, ArraysConvertElementByElementFromAndToEveryFloatingPointType) {
  std::vector<float> values(999);
  RandomStream stream(random_key(3, "f8"));
  for (float& x : values) {
    x = 40 * stream.normal();
  }
  const HostArray x = HostArray::f32({999}, values);
  for (const Format& format : kFormats) {
    const HostArray narrow = convert(x, format.dtype);
    ASSERT_EQ(narrow.bytes.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(static_cast<uint8_t>(narrow.bytes[i]), format.encode(values[i]));
    }
    for (const DType wide : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
      SCOPED_TRACE(to_string(wide));
      // Every finite code is exact in these types, so the round trip loses nothing.
      const HostArray there = convert(narrow, wide);
      EXPECT_EQ(convert(there, DType::F32).bytes, convert(narrow, DType::F32).bytes);
      EXPECT_EQ(convert(there, format.dtype).bytes, narrow.bytes);
    }
  }
}

TEST(F8, HasTheNamesOfStableHloAndOfOtherPrograms) {
  EXPECT_EQ(to_string(DType::F8E4M3FN), "f8e4m3fn");
  EXPECT_EQ(mlir_name(DType::F8E5M2), "f8E5M2");
  EXPECT_EQ(dtype_from_string("float8_e4m3fn"), DType::F8E4M3FN);
  EXPECT_EQ(byte_size(DType::F8E5M2), 1);
  for (const DType dtype : {DType::F8E4M3FN, DType::F8E5M2}) {
    EXPECT_TRUE(is_float(dtype) && is_f8(dtype) && !is_integer(dtype));
    EXPECT_EQ(dtype_from_string(to_string(dtype)), dtype);
  }
  EXPECT_FALSE(is_f8(DType::U8) || is_f8(DType::F16));
}

}  // namespace
}  // namespace kinema
