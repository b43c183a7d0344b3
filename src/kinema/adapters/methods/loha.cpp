#include <algorithm>

#include "kinema/adapters/methods/methods.h"
#include "kinema/core/error.h"

namespace kinema::adapters {
namespace {

constexpr std::array kLohaMarks{LoraPart::HADA_W1_A, LoraPart::HADA_W1_B, LoraPart::HADA_W2_A,
                                LoraPart::HADA_W2_B, LoraPart::HADA_T1,   LoraPart::HADA_T2};

int64_t loha_rank(const LoraParts& parts) {
  return matrix_of(need(parts, LoraPart::HADA_W1_B)).rows;
}

/// The sizes of one of the two matrices that are multiplied by elements.
WeightSize hadamard_size(const LoraParts& parts, LoraPart a, LoraPart b, LoraPart core_part) {
  const io::TensorView& left = need(parts, a);
  const io::TensorView& right = need(parts, b);
  const Matrix left_size = matrix_of(left);
  const Matrix right_size = matrix_of(right);
  if (!has(parts, core_part)) {
    if (left_size.columns != right_size.rows) {
      misfit(left, right);
    }
    return {.rows = left_size.rows, .columns = right_size.columns, .inputs = 0};
  }
  const io::TensorView& core = need(parts, core_part);
  const Matrix core_size = matrix_of(core);
  if (core_size.rows != left_size.rows) {
    misfit(core, left);
  }
  if (core.shape.dims[1] != right_size.rows) {
    misfit(core, right);
  }
  const int64_t kernel = core_size.columns / core.shape.dims[1];
  return {.rows = left_size.columns,
          .columns = right_size.columns * kernel,
          .inputs = right_size.columns};
}

WeightSize loha_size(const LoraParts& parts) {
  const WeightSize one =
      hadamard_size(parts, LoraPart::HADA_W1_A, LoraPart::HADA_W1_B, LoraPart::HADA_T1);
  const WeightSize two =
      hadamard_size(parts, LoraPart::HADA_W2_A, LoraPart::HADA_W2_B, LoraPart::HADA_T2);
  if (one.rows != two.rows || one.columns != two.columns) {
    misfit(need(parts, LoraPart::HADA_W1_B), need(parts, LoraPart::HADA_W2_B));
  }
  return one;
}

/// One of the two matrices, by rows.
struct Hadamard {
  Hadamard(const LoraParts& parts, LoraPart a, LoraPart b, LoraPart core)
      : left(finite_values(need(parts, a))),
        right(has(parts, core) ? core_times_right(need(parts, core), need(parts, b))
                               : finite_values(need(parts, b))),
        is_transposed(has(parts, core)) {
    const Matrix size = matrix_of(need(parts, a));
    inner = is_transposed ? size.rows : size.columns;
    if (is_transposed) {  // [rank, out] to [out, rank]
      std::vector<float> turned(left.size());
      for (int64_t i = 0; i < size.rows; ++i) {
        for (int64_t j = 0; j < size.columns; ++j) {
          turned[static_cast<size_t>(j * size.rows + i)] =
              left[static_cast<size_t>(i * size.columns + j)];
        }
      }
      left = std::move(turned);
    }
  }

  void rows(int64_t first, int64_t count, int64_t columns, float* out) const {
    product(count, columns, inner, 1.0F, {left.data() + first * inner}, {right.data()}, 0.0F, out);
  }

  std::vector<float> left;
  std::vector<float> right;
  bool is_transposed;
  int64_t inner = 0;
};

void loha_add(const LoraParts& parts, float scale, WeightRows weight) {
  constexpr int64_t kRows = 32;  // of both products, which stay in cache
  const Hadamard one(parts, LoraPart::HADA_W1_A, LoraPart::HADA_W1_B, LoraPart::HADA_T1);
  const Hadamard two(parts, LoraPart::HADA_W2_A, LoraPart::HADA_W2_B, LoraPart::HADA_T2);
  const int64_t columns = weight.columns();
  std::vector<float> a(static_cast<size_t>(kRows * columns));
  std::vector<float> b(a.size());
  for (int64_t row = 0; row < weight.count; row += kRows) {
    const int64_t count = std::min(kRows, weight.count - row);
    one.rows(weight.first + row, count, columns, a.data());
    two.rows(weight.first + row, count, columns, b.data());
    float* out = weight.values.data() + row * columns;
    for (int64_t i = 0; i < count * columns; ++i) {
      out[i] += scale * a[static_cast<size_t>(i)] * b[static_cast<size_t>(i)];
    }
  }
}

}  // namespace

// dW = (w1_a w1_b) * (w2_a w2_b) by elements (arXiv:2108.06098). With cores of convolutions:
//   (w_a t w_b)[o, i, k] = sum_{n, m} w_a[n, o] t[n, m, k] w_b[m, i]
constexpr LoraMethod kLoha{.name = "LoHa",
                           .marks = kLohaMarks,
                           .parts = kLohaMarks,
                           .size = loha_size,
                           .rank = loha_rank,
                           .block = single_rows,
                           .add = loha_add};

}  // namespace kinema::adapters
