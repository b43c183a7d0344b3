#include <algorithm>

#include "kinema/adapters/methods/methods.h"
#include "kinema/core/error.h"

namespace kinema::adapters {
namespace {

constexpr std::array kGloraMarks{LoraPart::GLORA_A1, LoraPart::GLORA_A2};
constexpr std::array kGloraParts{LoraPart::GLORA_A1, LoraPart::GLORA_A2, LoraPart::GLORA_B1,
                                 LoraPart::GLORA_B2, LoraPart::GLORA_BM};

/// dW = W p q + x y. LyCORIS' older versions call p q `a2 a1` and x y `b2 b1`, newer ones the
/// other way round.
struct Order {
  LoraPart p;
  LoraPart q;
  LoraPart x;
  LoraPart y;
};

Order order_of(const LoraParts& parts) {
  const Matrix b1 = matrix_of(need(parts, LoraPart::GLORA_B1));
  const Matrix b2 = matrix_of(need(parts, LoraPart::GLORA_B2));
  // Both products may exist; then the rank is the smaller of the inner sizes.
  const bool is_new = has(parts, LoraPart::GLORA_BM) ||
                      (b1.columns == b2.rows && (b2.columns != b1.rows || b1.columns < b1.rows));
  return is_new
             ? Order{LoraPart::GLORA_A1, LoraPart::GLORA_A2, LoraPart::GLORA_B1, LoraPart::GLORA_B2}
             : Order{LoraPart::GLORA_A2, LoraPart::GLORA_A1, LoraPart::GLORA_B2,
                     LoraPart::GLORA_B1};
}

int64_t glora_rank(const LoraParts& parts) {
  return matrix_of(need(parts, order_of(parts).q)).rows;
}

WeightSize glora_size(const LoraParts& parts) {
  const Order order = order_of(parts);
  const Matrix p = matrix_of(need(parts, order.p));
  const Matrix q = matrix_of(need(parts, order.q));
  const Matrix x = matrix_of(need(parts, order.x));
  const Matrix y = matrix_of(need(parts, order.y));
  if (p.columns != q.rows || p.rows != q.columns) {
    misfit(need(parts, order.p), need(parts, order.q));
  }
  int64_t columns = y.columns;
  if (has(parts, LoraPart::GLORA_BM)) {
    const io::TensorView& core = need(parts, LoraPart::GLORA_BM);
    const Matrix size = matrix_of(core);
    if (size.rows != x.columns || core.shape.dims[1] != y.rows) {
      misfit(core, need(parts, order.y));
    }
    columns *= size.columns / core.shape.dims[1];
  } else if (x.columns != y.rows) {
    misfit(need(parts, order.x), need(parts, order.y));
  }
  if (columns % p.rows != 0) {
    misfit(need(parts, order.p), need(parts, order.y));
  }
  return {.rows = x.rows, .columns = columns, .inputs = p.rows};
}

void glora_add(const LoraParts& parts, float scale, WeightRows weight) {
  const Order order = order_of(parts);
  const std::vector<float> p = finite_values(need(parts, order.p));
  const std::vector<float> q = finite_values(need(parts, order.q));
  const int64_t rank = matrix_of(need(parts, order.q)).rows;
  const int64_t columns = weight.columns();
  const int64_t kernel = weight.kernel();
  // W p q, over the inputs of each place of the kernel.
  std::vector<float> inner(static_cast<size_t>(rank * std::max(weight.count, kernel)));
  float* values = weight.values.data();
  if (kernel == 1) {
    product(weight.count, rank, columns, 1.0F, {values}, {p.data()}, 0.0F, inner.data());
    product(weight.count, columns, rank, scale, {inner.data()}, {q.data()}, 1.0F, values);
  } else {
    for (int64_t row = 0; row < weight.count; ++row, values += columns) {
      product(rank, kernel, weight.inputs, 1.0F, {p.data(), true}, {values}, 0.0F, inner.data());
      product(weight.inputs, kernel, rank, scale, {q.data(), true}, {inner.data()}, 1.0F, values);
    }
  }
  const std::vector<float> x = finite_values(need(parts, order.x));
  const int64_t of_x = matrix_of(need(parts, order.x)).columns;
  const std::vector<float> y =
      has(parts, LoraPart::GLORA_BM)
          ? core_times_right(need(parts, LoraPart::GLORA_BM), need(parts, order.y))
          : finite_values(need(parts, order.y));
  product(weight.count, columns, of_x, scale, {x.data() + weight.first * of_x}, {y.data()}, 1.0F,
          weight.values.data());
}

}  // namespace

// dW = W p q + x y: a low-rank change of the inputs, and one of the weight (arXiv:2306.07967).
constexpr LoraMethod kGlora{.name = "GLoRA",
                            .marks = kGloraMarks,
                            .parts = kGloraParts,
                            .size = glora_size,
                            .rank = glora_rank,
                            .block = single_rows,
                            .add = glora_add};

}  // namespace kinema::adapters
