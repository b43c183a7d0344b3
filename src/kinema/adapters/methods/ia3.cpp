#include "kinema/adapters/methods/methods.h"
#include "kinema/core/error.h"

namespace kinema::adapters {
namespace {

constexpr std::array kIa3Marks{LoraPart::IA3_INPUT, LoraPart::IA3_FACTOR, LoraPart::IA3_WEIGHT};

/// The vector, whether it is of inputs, and what it is at no change.
struct Vector {
  const io::TensorView* view;
  bool of_inputs;
  float neutral;
};

Vector vector_of(const LoraParts& parts) {
  if (has(parts, LoraPart::IA3_FACTOR)) {
    const io::TensorView& view = need(parts, LoraPart::IA3_FACTOR);
    check(view.shape.rank() == 2 && (view.shape.dims[0] == 1 || view.shape.dims[1] == 1),
          "[lora] `{}` is {}, expected [out, 1] or [1, in] of a linear layer", view.name,
          to_string(view.shape));
    return {&view, view.shape.dims[1] != 1, 1.0F};
  }
  const io::TensorView& input = need(parts, LoraPart::IA3_INPUT);
  check(input.shape.elements() == 1, "[lora] `{}` is {}, expected one number", input.name,
        to_string(input.shape));
  return {&need(parts, LoraPart::IA3_WEIGHT), number_of(input) != 0, 0.0F};
}

WeightSize ia3_size(const LoraParts& parts) {
  const Vector vector = vector_of(parts);
  const int64_t count = vector.view->shape.elements();
  int64_t longer = 0;
  for (const int64_t dim : vector.view->shape.dims) {
    longer += dim > 1 ? 1 : 0;
  }
  check(count > 0 && longer <= 1, "[lora] `{}` is {}, expected a vector", vector.view->name,
        to_string(vector.view->shape));
  return vector.of_inputs ? WeightSize{.rows = 0, .columns = 0, .inputs = count}
                          : WeightSize{.rows = count, .columns = 0, .inputs = 0};
}

void ia3_add(const LoraParts& parts, float scale, WeightRows weight) {
  const Vector vector = vector_of(parts);
  const std::vector<float> values = finite_values(*vector.view);
  const int64_t columns = weight.columns();
  const int64_t kernel = weight.kernel();
  for (int64_t row = 0; row < weight.count; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t i = vector.of_inputs ? column / kernel : weight.first + row;
      weight.values[static_cast<size_t>(row * columns + column)] *=
          1.0F + scale * (values[static_cast<size_t>(i)] - vector.neutral);
    }
  }
}

}  // namespace

// dW = W diag(v) or diag(v) W (arXiv:2205.05638). PEFT stores v + 1.
constexpr LoraMethod kIa3{.name = "IA3",
                          .marks = kIa3Marks,
                          .parts = kIa3Marks,
                          .size = ia3_size,
                          .rank = no_rank,
                          .block = single_rows,
                          .add = ia3_add};

}  // namespace kinema::adapters
