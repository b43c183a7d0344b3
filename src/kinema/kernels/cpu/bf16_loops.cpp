#include "kinema/kernels/cpu/bf16_loops.h"

#include <bit>

#include "kinema/kernels/cpu/vector_loop.h"

namespace kinema::kernels {
namespace {

struct ToBf16 {
  [[gnu::always_inline]] static void run(const float* x, int64_t n, float factor, uint16_t* y) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const float value = x[i] * factor;
      const auto bits = std::bit_cast<uint32_t>(value);
      const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
      y[i] = static_cast<uint16_t>(value != value ? 0x7FC0 : rounded);
    }
  }
};

struct FromBf16 {
  [[gnu::always_inline]] static void run(const uint16_t* x, int64_t n, float* y) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      y[i] = std::bit_cast<float>(static_cast<uint32_t>(x[i]) << 16);
    }
  }
};

}  // namespace

void to_bf16(const float* x, int64_t n, float factor, uint16_t* y) {
  vector_loop<ToBf16>(x, n, factor, y);
}

void from_bf16(const uint16_t* x, int64_t n, float* y) { vector_loop<FromBf16>(x, n, y); }

}  // namespace kinema::kernels
