#include "kinema/adapters/methods/methods.h"
#include "kinema/core/error.h"

namespace kinema::adapters {
namespace {

constexpr std::array kPairMarks{LoraPart::MID, LoraPart::DORA_SCALE, LoraPart::MAGNITUDE};
constexpr std::array kPairParts{LoraPart::DOWN, LoraPart::UP, LoraPart::MID};

int64_t pair_rank(const LoraParts& parts) { return need(parts, LoraPart::DOWN).shape.dims[0]; }

/// The product of the halves, [out, rank] times [rank, in kernel], or with the core between them.
WeightSize pair_size(const LoraParts& parts) {
  const io::TensorView& down = need(parts, LoraPart::DOWN);
  const io::TensorView& up = need(parts, LoraPart::UP);
  const Matrix right = matrix_of(down);
  const Matrix left = matrix_of(up);
  if (!has(parts, LoraPart::MID)) {
    if (left.columns != right.rows) {
      misfit(up, down);
    }
    return {.rows = left.rows, .columns = right.columns, .inputs = down.shape.dims[1]};
  }
  const io::TensorView& mid = need(parts, LoraPart::MID);
  const Matrix core = matrix_of(mid);
  if (mid.shape.dims[1] != right.rows) {
    misfit(mid, down);
  }
  if (left.columns != core.rows) {
    misfit(up, mid);
  }
  const int64_t kernel = core.columns / mid.shape.dims[1];
  return {.rows = left.rows, .columns = right.columns * kernel, .inputs = right.columns};
}

void pair_add(const LoraParts& parts, float scale, WeightRows weight) {
  const io::TensorView& down = need(parts, LoraPart::DOWN);
  const std::vector<float> up = finite_values(need(parts, LoraPart::UP));
  const int64_t rank = matrix_of(need(parts, LoraPart::UP)).columns;
  const std::vector<float> right = has(parts, LoraPart::MID)
                                       ? core_times_right(need(parts, LoraPart::MID), down)
                                       : finite_values(down);
  product(weight.count, weight.columns(), rank, scale, {up.data() + weight.first * rank},
          {right.data()}, 1.0F, weight.values.data());
}

}  // namespace

// dW = up down for a linear layer, or for a kernel flattened to columns. With Tucker's core t:
//   dW[o, i, k] = sum_{n, m} up[o, n] t[n, m, k] down[m, i]
constexpr LoraMethod kPair{.name = "LoCon with a Tucker core",
                           .marks = kPairMarks,
                           .parts = kPairParts,
                           .size = pair_size,
                           .rank = pair_rank,
                           .block = single_rows,
                           .add = pair_add};

}  // namespace kinema::adapters
