#include "kinema/kernels/cpu/attention.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kinema/core/error.h"
#include "kinema/kernels/cpu/bf16_loops.h"
#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/panel_product.h"
#include "kinema/kernels/cpu/vector_loop.h"

namespace kinema::kernels {
namespace {

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

/// scores = scores * scale + bias; returns the largest.
struct AddBias {
  [[gnu::always_inline]] static float run(float* scores, int64_t n, float scale, const float* bias,
                                          int64_t stride) {
    float largest = -std::numeric_limits<float>::infinity();
    if (bias != nullptr && stride == 1) {
#pragma omp simd reduction(max : largest)
      for (int64_t i = 0; i < n; ++i) {
        scores[i] = scores[i] * scale + bias[i];
        largest = std::max(largest, scores[i]);
      }
      return largest;
    }
    const float all = bias != nullptr ? *bias : 0.0F;
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < n; ++i) {
      scores[i] = scores[i] * scale + all;
      largest = std::max(largest, scores[i]);
    }
    return largest;
  }
};

/// weights = e^(scores - largest), in place; returns their sum.
struct Exponentials {
  [[gnu::always_inline]] static float run(float* scores, int64_t n, float largest) {
    float total = 0.0F;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; ++i) {
      scores[i] = exponential(scores[i] - largest);
      total += scores[i];
    }
    return total;
  }
};

/// y = x * factor.
struct Multiply {
  [[gnu::always_inline]] static void run(const float* x, int64_t n, float factor, float* y) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      y[i] = x[i] * factor;
    }
  }
};

/// Queries whose scores are worked on together: about half a megabyte of them, and enough for the
/// products to be fast.
int64_t rows_at_once(const AttentionPlan& p) {
  constexpr int64_t kScores = int64_t{1} << 17;
  return std::min(p.queries, std::clamp<int64_t>(kScores / p.keys / 16 * 16, 64, 256));
}

/// One block of queries of one head.
struct Block {
  const AttentionPlan& p;
  DType dtype;
  float scale;
  const char* q;
  const char* k;
  const char* v;
  const float* bias;  // of the first query and key
  char* y;
  int64_t rows;

  void run() const {
    const int64_t step = p.heads * p.width;  // between neighbouring queries or keys
    thread_local Buffer scores_buffer;
    thread_local Buffer weights_buffer;
    thread_local Buffer sums_buffer;
    thread_local Buffer totals_buffer;
    auto* scores = reinterpret_cast<float*>(scores_buffer.at_least(bytes(rows * p.keys)));
    auto* sums = reinterpret_cast<float*>(sums_buffer.at_least(bytes(rows * p.width)));
    auto* totals = reinterpret_cast<float*>(totals_buffer.at_least(bytes(rows)));
    const char* weights = reinterpret_cast<const char*>(scores);
    multiply_alone({rows, p.keys, p.width, step, 1, 1, step, p.keys, 1, {}}, dtype, DType::F32, q,
                   k, reinterpret_cast<char*>(scores));
    for (int64_t i = 0; i < rows; ++i) {
      float* row = scores + i * p.keys;
      const float* added = bias != nullptr ? bias + i * p.bias[2] : nullptr;
      const float largest = vector_loop<AddBias>(row, p.keys, scale, added, p.bias[3]);
      totals[i] = vector_loop<Exponentials>(row, p.keys, largest);
    }
    const StridedDot weighted{rows, p.width, p.keys, p.keys, 1, step, 1, p.width, 1, {}};
    if (product_dtype(dtype) != dtype) {
      // The weights need not be rounded where products are F32 anyway.
      panel_product(weighted, DType::F32, dtype, DType::F32, weights, v,
                    reinterpret_cast<char*>(sums));
    } else {
      if (dtype == DType::BF16) {
        char* narrow = weights_buffer.at_least(bytes(rows * p.keys) / 2);
        to_bf16(scores, rows * p.keys, 1.0F, reinterpret_cast<uint16_t*>(narrow));
        weights = narrow;
      }
      multiply_alone(weighted, dtype, DType::F32, weights, v, reinterpret_cast<char*>(sums));
    }
    for (int64_t i = 0; i < rows; ++i) {
      char* to = y + i * step * byte_size(dtype);
      const float* from = sums + i * p.width;
      if (dtype == DType::BF16) {
        to_bf16(from, p.width, 1.0F / totals[i], reinterpret_cast<uint16_t*>(to));
      } else {
        vector_loop<Multiply>(from, p.width, 1.0F / totals[i], reinterpret_cast<float*>(to));
      }
    }
  }

  static size_t bytes(int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); }
};

}  // namespace

double AttentionPlan::flops() const {
  return 4.0 * static_cast<double>(batch * heads * width) * static_cast<double>(queries) *
         static_cast<double>(keys);
}

void attention(const AttentionPlan& p, DType dtype, double scale, const void* q, const void* k,
               const void* v, const float* bias, void* y, const ParallelFor& parallel_for) {
  const int64_t rows = rows_at_once(p);
  const int64_t blocks = (p.queries + rows - 1) / rows;
  const int64_t step = p.heads * p.width;
  parallel_for(p.batch * p.heads * blocks, [&](int64_t i) {
    const int64_t first = i % blocks * rows;
    const int64_t head = i / blocks % p.heads;
    const int64_t batch = i / blocks / p.heads;
    const int64_t at_query =
        ((batch * p.queries + first) * step + head * p.width) * byte_size(dtype);
    const int64_t at_key = (batch * p.keys * step + head * p.width) * byte_size(dtype);
    Block{.p = p,
          .dtype = dtype,
          .scale = static_cast<float>(scale),
          .q = static_cast<const char*>(q) + at_query,
          .k = static_cast<const char*>(k) + at_key,
          .v = static_cast<const char*>(v) + at_key,
          .bias = bias == nullptr ? nullptr
                                  : bias + batch * p.bias[0] + head * p.bias[1] + first * p.bias[2],
          .y = static_cast<char*>(y) + at_query,
          .rows = std::min(rows, p.queries - first)}
        .run();
  });
}

std::vector<int64_t> to_words(const AttentionPlan& p) {
  return {p.batch, p.queries, p.keys, p.heads, p.width, p.bias[0], p.bias[1], p.bias[2], p.bias[3]};
}

AttentionPlan attention_from_words(const int64_t* words, int64_t count) {
  check(count == 9, "[attention kernel] a plan has {} words, expected 9", count);
  return {words[0], words[1], words[2],
          words[3], words[4], {words[5], words[6], words[7], words[8]}};
}

}  // namespace kinema::kernels
