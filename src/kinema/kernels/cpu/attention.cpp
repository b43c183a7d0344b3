#include "kinema/kernels/cpu/attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
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

/// The largest score.
struct Largest {
  [[gnu::always_inline]] static float run(const float* scores, int64_t n) {
    float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < n; ++i) {
      largest = std::max(largest, scores[i]);
    }
    return largest;
  }
};

/// weights = e^(scores * scale - largest), in place; returns their sum.
struct Exponentials {
  [[gnu::always_inline]] static float run(float* scores, int64_t n, float scale, float largest) {
    float total = 0.0F;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; ++i) {
      scores[i] = exponential(scores[i] * scale - largest);
      total += scores[i];
    }
    return total;
  }
};

/// sum = sum * factor + x.
struct Accumulate {
  [[gnu::always_inline]] static void run(float* sum, int64_t n, float factor, const float* x) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      sum[i] = sum[i] * factor + x[i];
    }
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

/// Queries and keys whose scores are worked on together.
struct Tile {
  int64_t queries, keys;

  /// A quarter of a megabyte of scores stays in a core's second cache between the two products and
  /// what is done to them in between, however many keys there are.
  explicit Tile(const AttentionPlan& p) {
    constexpr int64_t kKeys = 512;
    constexpr int64_t kScores = int64_t{1} << 16;
    const int64_t parts = (p.keys + kKeys - 1) / kKeys;
    keys = std::min(p.keys, ((p.keys + parts - 1) / parts + 15) / 16 * 16);
    queries = std::min(p.queries, std::clamp<int64_t>(kScores / keys / 16 * 16, 128, 256));
  }
};

/// One block of queries of one head, against a tile of keys after the other: "FlashAttention",
/// Dao et al. 2022, algorithm 1 (a running maximum and sum of each query).
class Block {
 public:
  struct Operands {
    const char* q;
    const char* k;
    const char* v;
    const float* bias;  // of the first query and key
    char* y;
  };

  Block(const AttentionPlan& plan, const Tile& tile, DType dtype, float scale, int64_t rows)
      : p_(plan), tile_(tile), dtype_(dtype), scale_(scale), rows_(rows) {
    static thread_local std::array<Buffer, 6> buffers;
    const auto floats = [&](size_t i, int64_t count) {
      return reinterpret_cast<float*>(
          buffers[i].at_least(static_cast<size_t>(count) * sizeof(float)));
    };
    scores_ = floats(0, rows * tile.keys);
    narrow_ = reinterpret_cast<char*>(floats(1, rows * tile.keys / 2 + 1));
    sums_ = floats(2, rows * p_.width);
    part_ = floats(3, rows * p_.width);
    largest_ = floats(4, 2 * rows);
    totals_ = largest_ + rows;
    factors_ = floats(5, rows);
  }

  void run(const Operands& at) const {
    const int64_t key_bytes = step() * byte_size(dtype_);
    std::fill_n(largest_, rows_, -std::numeric_limits<float>::infinity());
    std::fill_n(totals_, rows_, 0.0F);
    for (int64_t first = 0; first < p_.keys; first += tile_.keys) {
      const int64_t keys = std::min(tile_.keys, p_.keys - first);
      multiply_alone({rows_, keys, p_.width, step(), 1, 1, step(), keys, 1, {}}, dtype_, DType::F32,
                     at.q, at.k + first * key_bytes, reinterpret_cast<char*>(scores_));
      weigh(keys, at.bias == nullptr ? nullptr : at.bias + first * p_.bias[3]);
      add(keys, at.v + first * key_bytes, first == 0);
    }
    for (int64_t i = 0; i < rows_; ++i) {
      char* to = at.y + i * key_bytes;
      const float* from = sums_ + i * p_.width;
      if (dtype_ == DType::BF16) {
        to_bf16(from, p_.width, 1.0F / totals_[i], reinterpret_cast<uint16_t*>(to));
      } else {
        vector_loop<Multiply>(from, p_.width, 1.0F / totals_[i], reinterpret_cast<float*>(to));
      }
    }
  }

 private:
  int64_t step() const { return p_.heads * p_.width; }  // between neighbouring queries or keys

  /// Scores become weights, relative to the largest score so far.
  void weigh(int64_t keys, const float* bias) const {
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    const bool scaled_late = bias == nullptr && scale_ > 0.0F;
    for (int64_t i = 0; i < rows_; ++i) {
      float* row = scores_ + i * keys;
      const float* added = bias != nullptr ? bias + i * p_.bias[2] : nullptr;
      const float before = largest_[i];
      largest_[i] =
          std::max(before, scaled_late
                               ? vector_loop<Largest>(row, keys) * scale_
                               : vector_loop<AddBias>(row, keys, scale_, added, p_.bias[3]));
      // Where all keys so far are masked there is no largest: their weights are zeros, and what is
      // NaN stays so.
      const float subtracted = largest_[i] == kNone ? 0.0F : largest_[i];
      factors_[i] = before == kNone ? 0.0F : std::exp(before - subtracted);
      totals_[i] =
          totals_[i] * factors_[i] +
          vector_loop<Exponentials>(row, keys, scaled_late ? scale_ : 1.0F, subtracted);
    }
  }

  /// The weighted values of a tile of keys are added to those of the tiles before.
  void add(int64_t keys, const char* v, bool is_first) const {
    char* out = reinterpret_cast<char*>(is_first ? sums_ : part_);
    const char* weights = reinterpret_cast<const char*>(scores_);
    const StridedDot weighted{rows_, p_.width, keys, keys, 1, step(), 1, p_.width, 1, {}};
    if (product_dtype(dtype_) != dtype_) {
      // The weights need not be rounded where products are F32 anyway.
      panel_product(weighted, DType::F32, dtype_, DType::F32, weights, v, out);
    } else {
      if (dtype_ == DType::BF16) {
        to_bf16(scores_, rows_ * keys, 1.0F, reinterpret_cast<uint16_t*>(narrow_));
        weights = narrow_;
      }
      multiply_alone(weighted, dtype_, DType::F32, weights, v, out);
    }
    for (int64_t i = 0; i < rows_ && !is_first; ++i) {
      vector_loop<Accumulate>(sums_ + i * p_.width, p_.width, factors_[i], part_ + i * p_.width);
    }
  }

  const AttentionPlan& p_;
  const Tile& tile_;
  DType dtype_;
  float scale_;
  int64_t rows_;
  float* scores_;
  char* narrow_;
  float* sums_;
  float* part_;
  float* largest_;
  float* totals_;
  float* factors_;
};

}  // namespace

double AttentionPlan::flops() const {
  return 4.0 * static_cast<double>(batch * heads * width) * static_cast<double>(queries) *
         static_cast<double>(keys);
}

void attention(const AttentionPlan& p, DType dtype, double scale, const void* q, const void* k,
               const void* v, const float* bias, void* y, const ParallelFor& parallel_for) {
  const Tile tile(p);
  const int64_t blocks = (p.queries + tile.queries - 1) / tile.queries;
  const int64_t step = p.heads * p.width;
  parallel_for(p.batch * p.heads * blocks, [&](int64_t i) {
    const int64_t first = i % blocks * tile.queries;
    const int64_t head = i / blocks % p.heads;
    const int64_t batch = i / blocks / p.heads;
    const int64_t at_query =
        ((batch * p.queries + first) * step + head * p.width) * byte_size(dtype);
    const int64_t at_key = (batch * p.keys * step + head * p.width) * byte_size(dtype);
    const Block block(p, tile, dtype, static_cast<float>(scale),
                      std::min(tile.queries, p.queries - first));
    block.run({.q = static_cast<const char*>(q) + at_query,
               .k = static_cast<const char*>(k) + at_key,
               .v = static_cast<const char*>(v) + at_key,
               .bias = bias == nullptr
                           ? nullptr
                           : bias + batch * p.bias[0] + head * p.bias[1] + first * p.bias[2],
               .y = static_cast<char*>(y) + at_query});
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
