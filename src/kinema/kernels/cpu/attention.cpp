#include "kinema/kernels/cpu/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "kinema/core/error.h"
#include "kinema/kernels/cpu/amx_product.h"
#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/exponential.h"
#include "kinema/kernels/cpu/float_loops.h"
#include "kinema/kernels/cpu/packed_product.h"
#include "kinema/kernels/cpu/rounded_exponentials.h"
#include "kinema/kernels/cpu/rounded_values.h"
#include "kinema/kernels/cpu/rounding.h"
#include "kinema/kernels/cpu/tile_product.h"
#include "kinema/kernels/cpu/vector_loop.h"

namespace kinema::kernels {
namespace {

/// The largest score; NaN is skipped. Keeps several maxima at a time: compilers do not vectorise a
/// single one, because signs of zeros and NaN would make its order matter.
struct Largest {
  [[gnu::always_inline]] static float run(const float* scores, int64_t n) {
    constexpr int64_t kLanes = 64;
    std::array<float, kLanes> lanes;
    lanes.fill(-std::numeric_limits<float>::infinity());
    int64_t at = 0;
    for (; at + kLanes <= n; at += kLanes) {
#pragma omp simd
      for (int64_t i = 0; i < kLanes; ++i) {
        lanes[static_cast<size_t>(i)] = scores[at + i] > lanes[static_cast<size_t>(i)]
                                            ? scores[at + i]
                                            : lanes[static_cast<size_t>(i)];
      }
    }
    for (; at < n; ++at) {
      lanes[0] = scores[at] > lanes[0] ? scores[at] : lanes[0];
    }
    for (size_t half = kLanes / 2; half > 0; half /= 2) {
#pragma omp simd
      for (size_t i = 0; i < half; ++i) {
        lanes[i] = lanes[i + half] > lanes[i] ? lanes[i + half] : lanes[i];
      }
    }
    return lanes[0];
  }
};

/// scores = scores * scale + bias; returns the maximum.
struct AddBias {
  [[gnu::always_inline]] static float run(float* scores, int64_t n, float scale, const float* bias,
                                          int64_t stride) {
    if (bias != nullptr && stride == 1) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        scores[i] = scores[i] * scale + bias[i];
      }
    } else {
      const float all = bias != nullptr ? *bias : 0.0F;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        scores[i] = scores[i] * scale + all;
      }
    }
    return Largest::run(scores, n);
  }
};

/// weights = e^(scores * scale - largest), in place; returns their sum.
template <bool kFused>
struct Exponentials {
  [[gnu::always_inline]] static float run(float* scores, int64_t n, float scale, float largest) {
    float total = 0.0F;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; ++i) {
      scores[i] = exponential<kFused>(multiply_add<kFused>(scores[i], scale, -largest));
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

/// How a head is split. It depends only on the plan and the instruction set, as do the result's
/// bits.
struct Cut {
  int64_t keys;     // of a tile
  int64_t queries;  // in a block; their scores for one tile are processed together
  int64_t blocks;   // of queries that use each packed tile of keys in turn

  /// A quarter of a megabyte of scores stays in L2 between the two products and the softmax,
  /// whatever the number of keys; half a megabyte on processors with matrix tiles, which have
  /// larger caches.
  Cut(const AttentionPlan& p, DType dtype) {
    constexpr int64_t kScores = int64_t{1} << 16;
    const bool tiles = uses_tiles(dtype);
    const int64_t most_keys = tiles ? 960 : 512;  // rows of 1,024 would map to the same cache lines
    const int64_t most_blocks = tiles ? 8 : 4;
    keys = std::min(p.keys, round_up(ceil_div(p.keys, ceil_div(p.keys, most_keys)), kTileDepth));
    queries = std::min(p.queries, std::clamp<int64_t>(kScores / keys / 16 * 16, 128, 256));
    blocks = std::min(most_blocks, ceil_div(p.queries, queries));
  }
};

/// Queries of one head against one tile of keys after another: "FlashAttention", Dao et al. 2022,
/// algorithm 1 (a running maximum and sum per query).
class Queries {
 public:
  struct Operands {
    const char* q;
    const char* k;
    const char* v;
    const float* bias;  // at the first query and key
    char* y;
    float* lse;  // or null
  };

  Queries(const AttentionPlan& plan, const Cut& cut, DType dtype, float scale, int64_t count)
      : p_(plan), cut_(cut), dtype_(dtype), scale_(scale), count_(count) {
    thread_local Memory memory;
    memory_ = &memory;
    scores_ = memory.scores.floats(cut.queries * cut.keys);
    // Products in F32 need no rounded weights.
    weights_.emplace(product_dtype(dtype), scores_, cut.queries * cut.keys, memory.weights);
    part_ = memory.part.floats(cut.queries * p_.width);
    sums_ = memory.sums.floats(count * p_.width);
    largest_ = memory.rows.floats(3 * count);
    totals_ = largest_ + count;
    factors_ = totals_ + count;
  }

  void run(const Operands& at) const {
    std::fill_n(largest_, count_, -std::numeric_limits<float>::infinity());
    std::fill_n(totals_, count_, 0.0F);
    gather(at.q);
    for (int64_t key = 0; key < p_.keys; key += cut_.keys) {
      const int64_t keys = std::min(cut_.keys, p_.keys - key);
      const char* k = at.k + key * key_bytes();
      const char* v = at.v + key * key_bytes();
      memory_->k.pack(dtype_, cut_.queries, p_.width, keys, k, 1, step());
      memory_->v.pack(dtype_, cut_.queries, keys, p_.width, v, step(), 1);
      for (int64_t first = 0; first < count_; first += cut_.queries) {
        const int64_t rows = std::min(cut_.queries, count_ - first);
        memory_->k.multiply(rows, dtype_, memory_->q.data() + first * row_bytes(), scores_);
        weigh(first, rows, keys,
              at.bias == nullptr ? nullptr : at.bias + first * p_.bias[2] + key * p_.bias[3]);
        add(first, rows, key == 0);
      }
    }
    for (int64_t i = 0; i < count_; ++i) {
      char* to = at.y + i * key_bytes();
      const float* from = sums_ + i * p_.width;
      if (dtype_ == DType::BF16) {
        to_bf16(from, p_.width, 1.0F / totals_[i], reinterpret_cast<uint16_t*>(to));
      } else {
        vector_loop<Multiply>(from, p_.width, 1.0F / totals_[i], reinterpret_cast<float*>(to));
      }
      if (at.lse != nullptr) {
        at.lse[i] = largest_[i] + std::log(totals_[i]);
      }
    }
  }

 private:
  struct Memory {
    Buffer scores, weights, part, sums, rows, q;
    PackedRhs k, v;
  };

  int64_t step() const { return p_.heads * p_.width; }  // between neighbouring queries or keys
  int64_t key_bytes() const { return step() * byte_size(dtype_); }
  int64_t row_bytes() const { return p_.width * byte_size(dtype_); }
  void gather(const char* q) const {
    char* to = memory_->q.at_least(static_cast<size_t>(count_ * row_bytes()));
    for (int64_t i = 0; i < count_; ++i) {
      std::memcpy(to + i * row_bytes(), q + i * key_bytes(), static_cast<size_t>(row_bytes()));
    }
  }

  /// Turns scores into weights, relative to the largest score so far.
  void weigh(int64_t first, int64_t rows, int64_t keys, const float* bias) const {
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    const bool scaled_late = bias == nullptr && scale_ > 0.0F;
    for (int64_t i = 0; i < rows; ++i) {
      float* row = scores_ + i * keys;
      float& largest = largest_[first + i];
      float& total = totals_[first + i];
      const float* added = bias != nullptr ? bias + i * p_.bias[2] : nullptr;
      const float before = largest;
      largest = std::max(before, scaled_late
                                     ? vector_loop<Largest>(row, keys) * scale_
                                     : vector_loop<AddBias>(row, keys, scale_, added, p_.bias[3]));
      // If all keys so far are masked there is no maximum: weights are zeros, and NaN stays NaN.
      const float subtracted = largest == kNone ? 0.0F : largest;
      const float factor = before == kNone ? 0.0F : std::exp(before - subtracted);
      total =
          total * factor + exponentiate(i * keys, keys, scaled_late ? scale_ : 1.0F, subtracted);
      factors_[first + i] = factor;
    }
  }

  /// Turns a row of scores into weights, rounded for the product with the values; returns their
  /// sum.
  float exponentiate(int64_t at, int64_t keys, float scale, float largest) const {
    float* row = scores_ + at;
    if (weights_->narrow() != nullptr && has_rounded_exponentials()) {
      return rounded_exponentials(row, keys, scale, largest, weights_->narrow() + at);
    }
    const float sum = fused_loop<Exponentials>(row, keys, scale, largest);
    weights_->round(at, keys);
    return sum;
  }

  /// Adds the weighted values of a tile of keys to those of earlier tiles.
  void add(int64_t first, int64_t rows, bool is_first) const {
    float* sums = sums_ + first * p_.width;
    memory_->v.multiply(rows, product_dtype(dtype_), weights_->data(), is_first ? sums : part_);
    for (int64_t i = 0; i < rows && !is_first; ++i) {
      vector_loop<Accumulate>(sums + i * p_.width, p_.width, factors_[first + i],
                              part_ + i * p_.width);
    }
  }

  const AttentionPlan& p_;
  const Cut& cut_;
  DType dtype_;
  float scale_;
  int64_t count_;
  Memory* memory_;
  float* scores_;
  std::optional<RoundedValues> weights_;  // rounded copies of the weights
  float* part_;
  float* sums_;
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
               const void* v, const float* bias, void* y, float* lse,
               const ParallelFor& parallel_for) {
  const Cut cut(p, dtype);
  const int64_t together = cut.blocks * cut.queries;
  const int64_t groups = (p.queries + together - 1) / together;
  const int64_t step = p.heads * p.width;
  parallel_for(p.batch * p.heads * groups, [&](int64_t i) {
    const int64_t first = i % groups * together;
    const int64_t head = i / groups % p.heads;
    const int64_t batch = i / groups / p.heads;
    const int64_t at_query =
        ((batch * p.queries + first) * step + head * p.width) * byte_size(dtype);
    const int64_t at_key = (batch * p.keys * step + head * p.width) * byte_size(dtype);
    const Queries queries(p, cut, dtype, static_cast<float>(scale),
                          std::min(together, p.queries - first));
    queries.run({.q = static_cast<const char*>(q) + at_query,
                 .k = static_cast<const char*>(k) + at_key,
                 .v = static_cast<const char*>(v) + at_key,
                 .bias = bias == nullptr
                             ? nullptr
                             : bias + batch * p.bias[0] + head * p.bias[1] + first * p.bias[2],
                 .y = static_cast<char*>(y) + at_query,
                 .lse = lse == nullptr ? nullptr : lse + i / groups * p.queries + first});
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
