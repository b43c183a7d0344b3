#include <algorithm>
#include <cstring>

#include "kinema/core/error.h"
#include "kinema/kernels/cpu/attention.h"
#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/exponential.h"
#include "kinema/kernels/cpu/float_loops.h"
#include "kinema/kernels/cpu/onednn.h"
#include "kinema/kernels/cpu/packed_product.h"
#include "kinema/kernels/cpu/rounded_values.h"
#include "kinema/kernels/cpu/vector_loop.h"

namespace kinema::kernels {
namespace {

/// In place, for a key's scores and dy v^T over several queries:
///
///   weights = e^(scores scale - lse),  differences = weights (differences - delta)
template <bool kFused>
struct Differences {
  [[gnu::always_inline]] static void run(float* weights, float* differences, int64_t n, float scale,
                                         const float* lse, const float* delta) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      // Rounding may put a score slightly above its lse; e^x is still accurate there.
      const float weight = exponential<kFused>(multiply_add<kFused>(weights[i], scale, -lse[i]));
      weights[i] = weight;
      differences[i] = weight * (differences[i] - delta[i]);
    }
  }
};

struct Multiply {
  [[gnu::always_inline]] static void run(float* x, int64_t n, float factor) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      x[i] *= factor;
    }
  }
};

/// How a head is split. Two f32 tiles stay in L2.
struct Cut {
  int64_t keys, queries;

  explicit Cut(const AttentionPlan& p)
      : keys(std::min<int64_t>(p.keys, 256)), queries(std::min<int64_t>(p.queries, 256)) {}
};

/// One head: "FlashAttention-2", Dao 2023, algorithm 2, a block of queries at a time. Scores are
/// stored transposed, [keys, queries], so that dv += p^T dy and dk += ds^T q read them without a
/// transpose.
class Head {
 public:
  struct At {
    const char* q;
    const char* k;
    const char* v;
    const char* dy;
    const float* lse;
    const float* delta;
    char* dq;
    char* dk;
    char* dv;
  };

  Head(const AttentionPlan& plan, DType dtype, DType out, float scale)
      : p_(plan), cut_(plan), dtype_(dtype), work_(product_dtype(dtype)), out_(out), scale_(scale) {
    thread_local Memory memory;
    memory_ = &memory;
    weights_ = memory.weights.floats(cut_.keys * cut_.queries);
    differences_ = memory.differences.floats(cut_.keys * cut_.queries);
    part_ = memory.part.floats(p_.width * std::max(cut_.keys, cut_.queries));
    dq_ = memory.dq.floats(p_.width * cut_.queries);
    dk_ = memory.dk.floats(p_.width * p_.keys);
    dv_ = memory.dv.floats(p_.width * p_.keys);
  }

  void run(const At& at) const {
    std::fill_n(dk_, p_.keys * p_.width, 0.0F);
    std::fill_n(dv_, p_.keys * p_.width, 0.0F);
    gather(at.k, p_.keys, memory_->k);
    gather(at.v, p_.keys, memory_->v);
    transpose(memory_->k, p_.keys, memory_->k_columns);
    for (int64_t first = 0; first < p_.queries; first += cut_.queries) {
      queries(at, first, std::min(cut_.queries, p_.queries - first));
    }
    vector_loop<Multiply>(dk_, p_.keys * p_.width, scale_);
    for (int64_t key = 0; key < p_.keys; ++key) {
      write(dk_ + key * p_.width, at.dk + key * step() * byte_size(out_));
      write(dv_ + key * p_.width, at.dv + key * step() * byte_size(out_));
    }
  }

 private:
  struct Memory {
    Buffer weights, differences, narrow_weights, narrow_differences, part, dq, dk, dv;
    Buffer k, k_columns, v, q, dy;
    PackedRhs q_rows, q_columns, dy_rows, dy_columns;
  };

  int64_t step() const { return p_.heads * p_.width; }  // between neighbouring queries or keys
  int64_t row_bytes() const { return p_.width * byte_size(work_); }

  /// The rows of this head, contiguous, in the dtype of the products.
  void gather(const char* from, int64_t rows, Buffer& into) const {
    char* to = into.at_least(static_cast<size_t>(rows * row_bytes()));
    for (int64_t i = 0; i < rows; ++i, from += step() * byte_size(dtype_), to += row_bytes()) {
      if (work_ == dtype_) {
        std::memcpy(to, from, static_cast<size_t>(row_bytes()));
      } else {
        from_bf16(reinterpret_cast<const uint16_t*>(from), p_.width, reinterpret_cast<float*>(to));
      }
    }
  }

  template <typename Number>
  void transpose_numbers(const char* from, int64_t rows, char* to) const {
    const auto* x = reinterpret_cast<const Number*>(from);
    auto* y = reinterpret_cast<Number*>(to);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < p_.width; ++j) {
        y[j * rows + i] = x[i * p_.width + j];
      }
    }
  }
  void transpose(const Buffer& from, int64_t rows, Buffer& into) const {
    char* to = into.at_least(static_cast<size_t>(rows * row_bytes()));
    work_ == DType::BF16 ? transpose_numbers<uint16_t>(from.data(), rows, to)
                         : transpose_numbers<float>(from.data(), rows, to);
  }

  void queries(const At& at, int64_t first, int64_t rows) const {
    const int64_t skipped = first * step() * byte_size(dtype_);
    gather(at.q + skipped, rows, memory_->q);
    gather(at.dy + skipped, rows, memory_->dy);
    const int64_t d = p_.width;
    const char* q = memory_->q.data();
    const char* dy = memory_->dy.data();
    memory_->q_columns.pack(work_, cut_.keys, d, rows, q, 1, d);
    memory_->q_rows.pack(work_, cut_.keys, rows, d, q, d, 1);
    memory_->dy_columns.pack(work_, cut_.keys, d, rows, dy, 1, d);
    memory_->dy_rows.pack(work_, cut_.keys, rows, d, dy, d, 1);
    std::fill_n(dq_, d * rows, 0.0F);
    for (int64_t key = 0; key < p_.keys; key += cut_.keys) {
      tile(key, std::min(cut_.keys, p_.keys - key), rows, at.lse + first, at.delta + first);
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < d; ++j) {
        part_[j] = dq_[j * rows + i] * scale_;
      }
      write(part_, at.dq + (first + i) * step() * byte_size(out_));
    }
  }

  void tile(int64_t key, int64_t keys, int64_t rows, const float* lse, const float* delta) const {
    const int64_t d = p_.width;
    memory_->q_columns.multiply(keys, work_, memory_->k.data() + key * row_bytes(), weights_);
    memory_->dy_columns.multiply(keys, work_, memory_->v.data() + key * row_bytes(), differences_);
    const RoundedValues weights(work_, weights_, keys * rows, memory_->narrow_weights);
    const RoundedValues differences(work_, differences_, keys * rows, memory_->narrow_differences);
    for (int64_t i = 0; i < keys; ++i) {
      fused_loop<Differences>(weights_ + i * rows, differences_ + i * rows, rows, scale_, lse,
                              delta);
      weights.round(i * rows, rows);
      differences.round(i * rows, rows);
    }
    memory_->dy_rows.multiply(keys, work_, weights.data(), part_);
    add_floats(part_, keys * d, dv_ + key * d);
    memory_->q_rows.multiply(keys, work_, differences.data(), part_);
    add_floats(part_, keys * d, dk_ + key * d);
    // dq^T += k^T ds^T
    multiply_single_threaded({d, rows, keys, p_.keys, 1, rows, 1, rows, 1, {}}, work_, DType::F32,
                             memory_->k_columns.data() + key * byte_size(work_), differences.data(),
                             reinterpret_cast<char*>(part_));
    add_floats(part_, d * rows, dq_);
  }

  void write(const float* row, char* to) const { write_floats(out_, row, p_.width, to); }

  const AttentionPlan& p_;
  Cut cut_;
  DType dtype_;
  DType work_;
  DType out_;
  float scale_;
  Memory* memory_;
  float* weights_;
  float* differences_;
  float* part_;
  float* dq_;  // transposed
  float* dk_;
  float* dv_;
};

}  // namespace

void attention_backward(const AttentionPlan& p, DType dtype, DType out, double scale,
                        const AttentionGradientOperands& x, const ParallelFor& parallel_for) {
  const int64_t step = p.heads * p.width;
  try {
    parallel_for(p.batch * p.heads, [&](int64_t i) {
      const int64_t batch = i / p.heads;
      const int64_t head = i % p.heads;
      const int64_t query = batch * p.queries * step + head * p.width;
      const int64_t key = batch * p.keys * step + head * p.width;
      const auto read = [](const void* data, int64_t at, DType of) {
        return static_cast<const char*>(data) + at * byte_size(of);
      };
      const auto written = [&](void* data, int64_t at) {
        return static_cast<char*>(data) + at * byte_size(out);
      };
      Head(p, dtype, out, static_cast<float>(scale))
          .run({.q = read(x.q, query, dtype),
                .k = read(x.k, key, dtype),
                .v = read(x.v, key, dtype),
                .dy = read(x.dy, query, dtype),
                .lse = x.lse + i * p.queries,
                .delta = x.delta + i * p.queries,
                .dq = written(x.dq, query),
                .dk = written(x.dk, key),
                .dv = written(x.dv, key)});
    });
  } catch (const dnnl::error& error) {
    fail("[attention kernel] oneDNN refuses the gradient of {} queries and {} keys of {}: {}",
         p.queries, p.keys, p.width, error.message);
  }
}

}  // namespace kinema::kernels
