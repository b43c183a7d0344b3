#include "kinema/nn/activation.h"

#include <fmt/ranges.h>

#include <array>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"

namespace kinema::nn {

Activation activation_from_string(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, Activation>, 9> kNames{
      {{"none", Activation::NONE},
       {"silu", Activation::SILU},
       {"gelu", Activation::GELU},
       {"relu", Activation::RELU},
       {"tanh", Activation::TANH},
       {"sigmoid", Activation::SIGMOID},
       {"mish", Activation::MISH},
       {"relu2", Activation::RELU2},
       {"swiglu", Activation::SWIGLU}}};
  std::vector<std::string_view> known;
  for (const auto& [word, activation] : kNames) {
    if (word == name) {
      return activation;
    }
    known.push_back(word);
  }
  fail("[activation] `{}` is not an activation\n  there are {}", name, fmt::join(known, ", "));
}

Tensor softplus(Tensor x) { return maximum(x, 0.0) + log(1.0 + exp(-abs(x))); }

namespace {

/// Its gradient at 0 is 0, where that of a maximum would be a half.
Tensor relu(Tensor x) { return select(compare(x, Comparison::GT, 0.0), x, zeros_like(x)); }

using Tensors = std::span<const Tensor>;

bool is_half(Tensor x) { return x.dtype() == DType::BF16 || x.dtype() == DType::F16; }

/// 1 / (1 + e^-x), each operation rounding its result.
Tensor rounded_sigmoid(Tensor x) { return 1.0 / (1.0 + exp(-x)); }

/// In a half type as JAX programs compute it on CPUs; graph/ops' silu would round once. The
/// gradient reads x only, so that nothing else is kept for it.
Tensor rounded_silu(Tensor x) {
  const auto body = [](Tensors in) -> std::vector<Tensor> {
    return {in[0] * rounded_sigmoid(in[0])};
  };
  const auto rule = [](Tensors in, Tensors, Tensors dys) -> std::vector<Tensor> {
    const Tensor s = rounded_sigmoid(in[0]);
    return {dys[0] * s + dys[0] * in[0] * (1.0 - s) * s};
  };
  return with_gradient({x}, body, rule)[0];
}

}  // namespace

Tensor sigmoid(Tensor x) {
  if (!is_half(x)) {
    return logistic(x);
  }
  const auto body = [](Tensors in) -> std::vector<Tensor> { return {rounded_sigmoid(in[0])}; };
  const auto rule = [](Tensors, Tensors ys, Tensors dys) -> std::vector<Tensor> {
    return {dys[0] * (1.0 - ys[0]) * ys[0]};
  };
  return with_gradient({x}, body, rule)[0];
}

Tensor activate(Activation how, Tensor x) {
  switch (how) {
    case Activation::NONE:
      return x;
    case Activation::SILU:
      return is_half(x) ? rounded_silu(x) : silu(x);
    case Activation::GELU:
      return gelu_tanh(x);
    case Activation::RELU:
      return relu(x);
    case Activation::TANH:
      return tanh(x);
    case Activation::SIGMOID:
      return sigmoid(x);
    case Activation::MISH:
      return x * tanh(softplus(x));
    case Activation::RELU2:
      return square(relu(x));
    case Activation::SWIGLU: {
      const std::vector<Tensor> halves = split(x, Axis(-1), 2);
      return silu(halves[0]) * halves[1];
    }
  }
  fail("[activation] unknown");
}

Tensor symlog(Tensor x) { return sign(x) * log(1.0 + abs(x)); }

Tensor symexp(Tensor x) { return sign(x) * (exp(abs(x)) - 1.0); }

}  // namespace kinema::nn
