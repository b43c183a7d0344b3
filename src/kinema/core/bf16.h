#pragma once

#include <bit>
#include <cstdint>

namespace kinema {

/// The float whose upper 16 bits are `bits`.
inline float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// Rounds to nearest, ties to even; NaN stays NaN.
inline uint16_t f32_to_bf16(float x) {
  const auto u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffU) > 0x7f800000U) {
    return static_cast<uint16_t>((u >> 16) | 0x40U);
  }
  return static_cast<uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
}

/// IEEE half to float, subnormals, infinities and NaN included.
inline float f16_to_f32(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000U) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fU;
  const uint32_t mantissa = h & 0x3ffU;
  if (exponent == 0x1fU) {
    return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  }
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
  }
  const float value = static_cast<float>(mantissa) * 0x1p-24F;
  return sign != 0 ? -value : value;
}

/// Rounds to nearest, ties to even; overflow becomes infinity.
inline uint16_t f32_to_f16(float x) {
  const auto u = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((u >> 16) & 0x8000U);
  const uint32_t a = u & 0x7fffffffU;
  if (a > 0x7f800000U) {
    return static_cast<uint16_t>(sign | 0x7e00U);
  }
  if (a >= 0x477ff000U) {  // 65520, halfway above the largest half
    return static_cast<uint16_t>(sign | 0x7c00U);
  }
  if (a < 0x38800000U) {  // below 2^-14: subnormal, one addition does the rounding
    const float shifted = std::bit_cast<float>(a) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U));
  }
  const uint32_t rounded = a + 0xfffU + ((a >> 13) & 1U);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

}  // namespace kinema
