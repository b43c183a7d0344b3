#pragma once

#include <bit>
#include <cstdint>

namespace kinema::kernels {

/// e^x for x <= 0 within 2 units in the last place; 0 where that is below the smallest normal
/// number, NaN for NaN. Branches would keep the loops around it from being vectors.
[[gnu::always_inline]] inline float exponential(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;  // few bits: a whole number times it is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // adding it leaves no bits for a fraction
  const float shifted = x * kLog2E + kRound;
  const float whole = shifted - kRound;
  const float r = (x - whole * kLn2High) - whole * kLn2Low;
  // Taylor: |r| <= ln 2 / 2, so the first term left out is below 2^-26 of the result.
  float p = 1.0F / 720.0F + r * (1.0F / 5040.0F);
  p = 1.0F / 120.0F + r * p;
  p = 1.0F / 24.0F + r * p;
  p = 1.0F / 6.0F + r * p;
  p = 0.5F + r * p;
  p = 1.0F + r * p;
  p = 1.0F + r * p;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127) << 23;
  const float y = p * std::bit_cast<float>(exponent);
  return x < -87.0F ? 0.0F : y;
}

}  // namespace kinema::kernels
