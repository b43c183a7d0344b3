#include "kinema/adapters/methods/methods.h"
#include "kinema/core/error.h"

namespace kinema::adapters {
namespace {

constexpr std::array kLokrMarks{LoraPart::LOKR_W1, LoraPart::LOKR_W1_A, LoraPart::LOKR_W1_B,
                                LoraPart::LOKR_W2, LoraPart::LOKR_W2_A, LoraPart::LOKR_W2_B,
                                LoraPart::LOKR_T2};

int64_t lokr_rank(const LoraParts& parts) {
  return has(parts, LoraPart::LOKR_W2_B)   ? matrix_of(need(parts, LoraPart::LOKR_W2_B)).rows
         : has(parts, LoraPart::LOKR_W1_B) ? matrix_of(need(parts, LoraPart::LOKR_W1_B)).rows
                                           : 0;
}

/// The sizes of a factor, whole or itself a product, and of w2 with a core.
Matrix factor_size(const LoraParts& parts, LoraPart whole, LoraPart a, LoraPart b) {
  if (has(parts, whole)) {
    check(!has(parts, a) && !has(parts, b), "[lora] `{}`: the module has this factor twice",
          need(parts, whole).name);
    return matrix_of(need(parts, whole));
  }
  const io::TensorView& left = need(parts, a);
  const io::TensorView& right = need(parts, b);
  const Matrix left_size = matrix_of(left);
  const Matrix right_size = matrix_of(right);
  if (whole == LoraPart::LOKR_W2 && has(parts, LoraPart::LOKR_T2)) {
    const io::TensorView& core = need(parts, LoraPart::LOKR_T2);
    const Matrix core_size = matrix_of(core);
    if (core_size.rows != left_size.rows) {
      misfit(core, left);
    }
    if (core.shape.dims[1] != right_size.rows) {
      misfit(core, right);
    }
    return {left_size.columns, right_size.columns * (core_size.columns / core.shape.dims[1])};
  }
  if (left_size.columns != right_size.rows) {
    misfit(left, right);
  }
  return {left_size.rows, right_size.columns};
}

WeightSize lokr_size(const LoraParts& parts) {
  const Matrix w1 = factor_size(parts, LoraPart::LOKR_W1, LoraPart::LOKR_W1_A, LoraPart::LOKR_W1_B);
  const Matrix w2 = factor_size(parts, LoraPart::LOKR_W2, LoraPart::LOKR_W2_A, LoraPart::LOKR_W2_B);
  return {.rows = w1.rows * w2.rows, .columns = w1.columns * w2.columns, .inputs = 0};
}

std::vector<float> factor(const LoraParts& parts, LoraPart whole, LoraPart a, LoraPart b) {
  if (has(parts, whole)) {
    return finite_values(need(parts, whole));
  }
  const bool has_core = whole == LoraPart::LOKR_W2 && has(parts, LoraPart::LOKR_T2);
  const std::vector<float> left = finite_values(need(parts, a));
  const std::vector<float> right =
      has_core ? core_times_right(need(parts, LoraPart::LOKR_T2), need(parts, b))
               : finite_values(need(parts, b));
  const Matrix size = factor_size(parts, whole, a, b);
  const int64_t inner = static_cast<int64_t>(left.size()) / size.rows;
  std::vector<float> out(static_cast<size_t>(size.rows * size.columns));
  product(size.rows, size.columns, inner, 1.0F, {left.data(), has_core}, {right.data()}, 0.0F,
          out.data());
  return out;
}

void lokr_add(const LoraParts& parts, float scale, WeightRows weight) {
  const Matrix size1 =
      factor_size(parts, LoraPart::LOKR_W1, LoraPart::LOKR_W1_A, LoraPart::LOKR_W1_B);
  const Matrix size2 =
      factor_size(parts, LoraPart::LOKR_W2, LoraPart::LOKR_W2_A, LoraPart::LOKR_W2_B);
  const std::vector<float> w1 =
      factor(parts, LoraPart::LOKR_W1, LoraPart::LOKR_W1_A, LoraPart::LOKR_W1_B);
  const std::vector<float> w2 =
      factor(parts, LoraPart::LOKR_W2, LoraPart::LOKR_W2_A, LoraPart::LOKR_W2_B);
  float* out = weight.values.data();
  for (int64_t row = weight.first; row < weight.first + weight.count; ++row) {
    const float* scales = w1.data() + row / size2.rows * size1.columns;
    const float* values = w2.data() + row % size2.rows * size2.columns;
    for (int64_t i = 0; i < size1.columns; ++i) {
      const float s = scale * scales[i];
      for (int64_t j = 0; j < size2.columns; ++j) {
        *out++ += s * values[j];
      }
    }
  }
}

}  // namespace

// dW = w1 (x) w2, the Kronecker product (arXiv:2309.14859):
//   dW[o1 k + o2, i1 n + i2, ...] = w1[o1, i1] w2[o2, i2, ...],   w2 [k, n, ...]
// Each factor may itself be a product a b, and w2 of a convolution may have Tucker's core.
constexpr LoraMethod kLokr{.name = "LoKr",
                           .marks = kLokrMarks,
                           .parts = kLokrMarks,
                           .size = lokr_size,
                           .rank = lokr_rank,
                           .block = single_rows,
                           .add = lokr_add};

}  // namespace kinema::adapters
