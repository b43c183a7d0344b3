#include "kinema/kernels/cpu/float_loops.h"

#include <immintrin.h>

#include <algorithm>
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

/// The processor's own rounding instruction, which compilers do not emit when vectorising.
[[gnu::target("avx512bf16,avx512bw,avx512vl")]] void to_bf16_by_instruction(const float* x,
                                                                            int64_t n, float factor,
                                                                            uint16_t* y) {
  constexpr int64_t kLanes = 16;
  const __m512 all = _mm512_set1_ps(factor);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_mul_ps(_mm512_loadu_ps(x + i), all));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), reinterpret_cast<__m256i>(rounded));
  }
  const auto left = static_cast<__mmask16>((1U << (n - i)) - 1U);
  const __m256bh rounded =
      _mm512_cvtneps_pbh(_mm512_mul_ps(_mm512_maskz_loadu_ps(left, x + i), all));
  _mm256_mask_storeu_epi16(y + i, left, reinterpret_cast<__m256i>(rounded));
}

struct FromBf16 {
  [[gnu::always_inline]] static void run(const uint16_t* x, int64_t n, float* y) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      y[i] = std::bit_cast<float>(static_cast<uint32_t>(x[i]) << 16);
    }
  }
};

struct Add {
  [[gnu::always_inline]] static void run(const float* x, int64_t n, float* sum) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      sum[i] += x[i];
    }
  }
};

struct AddOne {
  [[gnu::always_inline]] static void run(float value, int64_t n, float* x) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      x[i] += value;
    }
  }
};

}  // namespace

void to_bf16(const float* x, int64_t n, float factor, uint16_t* y) {
  if (isa() >= Isa::Avx512Bf16) {
    to_bf16_by_instruction(x, n, factor, y);
  } else {
    vector_loop<ToBf16>(x, n, factor, y);
  }
}

void from_bf16(const uint16_t* x, int64_t n, float* y) { vector_loop<FromBf16>(x, n, y); }

void add_floats(const float* x, int64_t n, float* sum) { vector_loop<Add>(x, n, sum); }

void add_to_floats(float value, int64_t n, float* x) { vector_loop<AddOne>(value, n, x); }

void read_floats(DType dtype, const char* from, int64_t at, int64_t count, float* to) {
  if (dtype == DType::BF16) {
    from_bf16(reinterpret_cast<const uint16_t*>(from) + at, count, to);
  } else {
    std::copy_n(reinterpret_cast<const float*>(from) + at, count, to);
  }
}

void write_floats(DType dtype, const float* from, int64_t count, char* to, int64_t at) {
  if (dtype == DType::BF16) {
    to_bf16(from, count, 1.0F, reinterpret_cast<uint16_t*>(to) + at);
  } else {
    std::copy_n(from, count, reinterpret_cast<float*>(to) + at);
  }
}

}  // namespace kinema::kernels
