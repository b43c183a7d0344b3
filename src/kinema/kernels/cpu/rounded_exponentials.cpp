#include "kinema/kernels/cpu/rounded_exponentials.h"

#include <immintrin.h>

#include <array>
#include <numeric>

#include "kinema/kernels/cpu/isa.h"

namespace kinema::kernels {
namespace {

constexpr int64_t kLanes = 16;

/// e^x for x <= 0. BF16 keeps 8 bits, so degree 5 suffices: by Taylor the first omitted term is
/// below (ln 2 / 2)^6 / 720 = 2^-18.7 of the result.
[[gnu::target("avx512f"), gnu::always_inline]] inline __m512 exponentials(__m512 given) {
  constexpr float kLog2E = 1.44269504F;
  constexpr int kNearest = 8;
  const __m512 x = _mm512_mul_ps(given, _mm512_set1_ps(kLog2E));
  const __m512 whole = _mm512_maskz_roundscale_ps(0xFFFF, x, kNearest);
  const __m512 r = _mm512_sub_ps(x, whole);
  __m512 p = _mm512_set1_ps(1.33335581e-3F);  // ln(2)^5 / 5!
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.61812911e-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.55041087e-2F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.40226507e-1F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.93147181e-1F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
  // NaN passes the test.
  const __mmask16 counts = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-126.0F), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(counts, p, whole);
}

[[gnu::target("avx512f,avx512bf16,avx512bw,avx512vl")]] float by_instruction(const float* scores,
                                                                             int64_t n, float scale,
                                                                             float largest,
                                                                             uint16_t* weights) {
  const __m512 factor = _mm512_set1_ps(scale);
  const __m512 most = _mm512_set1_ps(largest);
  __m512 even = _mm512_setzero_ps();
  __m512 odd = _mm512_setzero_ps();
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const __m512 a = exponentials(_mm512_fmsub_ps(_mm512_loadu_ps(scores + i), factor, most));
    const __m512 b =
        exponentials(_mm512_fmsub_ps(_mm512_loadu_ps(scores + i + kLanes), factor, most));
    even = _mm512_add_ps(even, a);
    odd = _mm512_add_ps(odd, b);
    _mm512_storeu_si512(weights + i, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a)));
  }
  for (; i < n; i += kLanes) {
    const auto left = static_cast<__mmask16>(n - i >= kLanes ? 0xFFFF : (1U << (n - i)) - 1U);
    const __m512 x = _mm512_fmsub_ps(_mm512_maskz_loadu_ps(left, scores + i), factor, most);
    const __m512 a = _mm512_maskz_mov_ps(left, exponentials(x));
    even = _mm512_add_ps(even, a);
    _mm256_mask_storeu_epi16(weights + i, left, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a)));
  }
  alignas(64) std::array<float, kLanes> sums;
  _mm512_store_ps(sums.data(), _mm512_add_ps(even, odd));
  return std::accumulate(sums.begin(), sums.end(), 0.0F);
}

}  // namespace

bool has_rounded_exponentials() { return isa() >= Isa::Avx512Bf16; }

float rounded_exponentials(const float* scores, int64_t n, float scale, float largest,
                           uint16_t* weights) {
  return by_instruction(scores, n, scale, largest, weights);
}

}  // namespace kinema::kernels
