#pragma once

#include <bit>
#include <cstdint>

#include "kinema/kernels/cpu/vector_loop.h"

namespace kinema::kernels {

/// e^x for x <= 0, within 2 units in the last place; 0 if that is below the smallest normal number,
/// NaN for NaN. Branch-free, so that the loops around it are vectorised. kFused: as in
/// multiply_add().
template <bool kFused = false>
[[gnu::always_inline]] inline float exponential(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;  // few bits: its product with an integer is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // adding it rounds to an integer
  const float shifted = multiply_add<kFused>(x, kLog2E, kRound);
  const float whole = shifted - kRound;
  const float r = multiply_add<kFused>(-whole, kLn2Low, multiply_add<kFused>(-whole, kLn2High, x));
  // Taylor: |r| <= ln 2 / 2, so the first omitted term is below 2^-26 of the result.
  float p = multiply_add<kFused>(r, 1.0F / 5040.0F, 1.0F / 720.0F);
  p = multiply_add<kFused>(r, p, 1.0F / 120.0F);
  p = multiply_add<kFused>(r, p, 1.0F / 24.0F);
  p = multiply_add<kFused>(r, p, 1.0F / 6.0F);
  p = multiply_add<kFused>(r, p, 0.5F);
  p = multiply_add<kFused>(r, p, 1.0F);
  p = multiply_add<kFused>(r, p, 1.0F);
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127) << 23;
  const float y = p * std::bit_cast<float>(exponent);
  return x < -87.0F ? 0.0F : y;
}

}  // namespace kinema::kernels
