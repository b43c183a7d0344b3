#pragma once

#include <bit>
#include <cstdint>

namespace kinema {

/// Eight-bit floats of the OCP 8-bit Floating Point Specification (revision 1.0): e4m3fn has four
/// exponent bits, no infinity and one NaN of each sign, and reaches 448; e5m2 is laid out like an
/// IEEE type, with infinities and NaN, and reaches 57344.
namespace f8 {

/// The constants that the conversions of an eight-bit type need.
struct Format {
  int mantissa = 0;     // bits
  int bias = 0;         // of the exponent
  uint8_t largest = 0;  // the code of the largest finite value
  uint8_t beyond = 0;   // the code for anything larger
  uint8_t not_a_number = 0;
};

constexpr Format kE4M3FN{
    .mantissa = 3, .bias = 7, .largest = 0x7e, .beyond = 0x7f, .not_a_number = 0x7f};
constexpr Format kE5M2{
    .mantissa = 2, .bias = 15, .largest = 0x7b, .beyond = 0x7c, .not_a_number = 0x7e};

/// Exact: every code is a float.
template <Format kFormat>
float to_f32(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80U) << 24;
  const uint32_t magnitude = code & 0x7fU;
  if (magnitude > kFormat.largest) {
    const bool infinite = kFormat.beyond != kFormat.not_a_number && magnitude == kFormat.beyond;
    return std::bit_cast<float>(sign | (infinite ? 0x7f800000U : 0x7fc00000U));
  }
  constexpr auto kShift = static_cast<uint32_t>(23 - kFormat.mantissa);
  if ((magnitude >> kFormat.mantissa) != 0) {
    constexpr auto kRebias = static_cast<uint32_t>(127 - kFormat.bias) << 23;
    return std::bit_cast<float>(sign | ((magnitude << kShift) + kRebias));
  }
  constexpr auto kStep = static_cast<uint32_t>(127 + 1 - kFormat.bias - kFormat.mantissa) << 23;
  const float value = static_cast<float>(magnitude) * std::bit_cast<float>(kStep);
  return sign != 0 ? -value : value;
}

/// Rounds to nearest, ties to even, in one step. A magnitude larger than halfway above the largest
/// value becomes `beyond`; NaN stays NaN.
template <Format kFormat>
uint8_t from_f32(float x, uint8_t beyond) {
  const auto u = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint8_t>((u >> 24) & 0x80U);
  const uint32_t a = u & 0x7fffffffU;
  if (a > 0x7f800000U) {
    return static_cast<uint8_t>(sign | kFormat.not_a_number);
  }
  constexpr auto kSmallestNormal = static_cast<uint32_t>(127 + 1 - kFormat.bias) << 23;
  if (a < kSmallestNormal) {
    // One addition rounds to a multiple of the smallest subnormal, which is the last bit of `kOne`.
    constexpr auto kOne = static_cast<uint32_t>(127 + 1 - kFormat.bias - kFormat.mantissa + 23)
                          << 23;
    const float shifted = std::bit_cast<float>(a) + std::bit_cast<float>(kOne);
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - kOne));
  }
  constexpr auto kShift = static_cast<uint32_t>(23 - kFormat.mantissa);
  constexpr uint32_t kHalf = (1U << (kShift - 1)) - 1;
  constexpr auto kRebias = static_cast<uint32_t>(127 - kFormat.bias) << 23;
  const uint32_t code = (a + kHalf + ((a >> kShift) & 1U) - kRebias) >> kShift;
  return static_cast<uint8_t>(sign | (code > kFormat.largest ? beyond : code));
}

}  // namespace f8

/// The value of an e4m3fn code.
inline float f8e4m3fn_to_f32(uint8_t code) { return f8::to_f32<f8::kE4M3FN>(code); }

/// Rounds to nearest, ties to even. What rounds to more than 448, and infinity, becomes NaN, as in
/// XLA's `convert`.
inline uint8_t f32_to_f8e4m3fn(float x) { return f8::from_f32<f8::kE4M3FN>(x, f8::kE4M3FN.beyond); }

/// The same, but what rounds to more than 448, and infinity, becomes 448 of its sign.
inline uint8_t f32_to_f8e4m3fn_saturated(float x) {
  return f8::from_f32<f8::kE4M3FN>(x, f8::kE4M3FN.largest);
}

/// The value of an e5m2 code.
inline float f8e5m2_to_f32(uint8_t code) { return f8::to_f32<f8::kE5M2>(code); }

/// Rounds to nearest, ties to even. What rounds to more than 57344 becomes infinity, as in XLA's
/// `convert`.
inline uint8_t f32_to_f8e5m2(float x) { return f8::from_f32<f8::kE5M2>(x, f8::kE5M2.beyond); }

/// The same, but what rounds to more than 57344, and infinity, becomes 57344 of its sign.
inline uint8_t f32_to_f8e5m2_saturated(float x) {
  return f8::from_f32<f8::kE5M2>(x, f8::kE5M2.largest);
}

}  // namespace kinema
