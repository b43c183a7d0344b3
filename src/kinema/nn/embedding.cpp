#include "kinema/nn/embedding.h"

#include <cmath>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::nn {

Tensor sinusoid(Tensor t, int64_t dim) {
  check(dim > 0 && dim % 2 == 0, "[sinusoid] {} channels do not split into cosines and sines", dim);
  const int64_t half = dim / 2;
  std::vector<float> frequencies;
  for (int64_t i = 0; i < half; ++i) {
    // Rounded to f32 at the same steps as the reference: t reaches 1000, where the last bit of a
    // frequency changes the angle by 3e-5.
    const float exponent =
        static_cast<float>(-std::log(10000.0)) * static_cast<float>(i) / static_cast<float>(half);
    frequencies.push_back(static_cast<float>(std::exp(static_cast<double>(exponent))));
  }
  const Tensor w = constant_f32(t.graph(), {half}, frequencies);
  const Tensor angles = expand_dims(as(t, DType::F32), Axis(-1)) * w;
  return concatenate({cos(angles), sin(angles)}, Axis(-1));
}

EmbeddingMlp::EmbeddingMlp(const Params& params, int64_t in, int64_t dim, const Init& init)
    : linear_1_(params / "linear_1", in, dim,
                {.out_axis = "mlp", .in_axis = "embed", .bias_axis = "mlp", .init = init}),
      linear_2_(params / "linear_2", dim, dim,
                {.out_axis = "embed", .in_axis = "mlp", .init = init}) {}

Tensor EmbeddingMlp::operator()(Tensor x, Tensor (*activation)(Tensor), Precision precision) const {
  return linear_2_(activation(linear_1_(x, precision)), precision);
}

}  // namespace kinema::nn
