#include "kinema/optimizers/laprop.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kinema/core/error.h"

namespace kinema::optimizers {
namespace {

/// One layer's tensor or a stack of them: sums of squares over a layer, with axes of size 1.
Tensor layer_norm_of(const nn::ParamSpec& spec, Tensor x) {
  std::vector<int64_t> axes;
  for (int64_t axis = spec.layers > 0 ? 1 : 0; axis < x.rank(); ++axis) {
    axes.push_back(axis);
  }
  return sqrt(axes.empty() ? square(x) : sum(square(x), axes, /*keep_dims=*/true));
}

/// The gradient, clipped relative to the parameter's norm.
Tensor clipped(const nn::ParamSpec& spec, Tensor gradient, Tensor parameter, double agc) {
  if (agc == 0.0) {
    return gradient;
  }
  constexpr double kSmallestNorm = 1e-3;
  const Tensor largest = agc * maximum(layer_norm_of(spec, parameter), kSmallestNorm);
  return gradient / maximum(layer_norm_of(spec, gradient) / largest, 1.0);
}

class LaProp : public Optimizer {
 public:
  explicit LaProp(LaPropOptions options, Memory memory = Memory::DEVICE)
      : Optimizer(memory), options_(std::move(options)) {}

  Moments<nn::ParamSpec> moments(const nn::ParamSpec& kept) const override {
    return {.mu = {kept}, .nu = {kept}};
  }

  /// The bias corrections of both moments, 1 - b^t.
  std::vector<Tensor> shared(const Update& how) const override {
    return {one_minus_power(options_.b1, how.number), one_minus_power(options_.b2, how.number)};
  }

  Tensor update(const nn::ParamSpec& spec, Tensor parameter, Moments<Tensor>& moments,
                Tensor gradient, const Update& how) const override {
    return how.result(
        convert(parameter, DType::F32) + change(spec, parameter, moments, gradient, how),
        parameter);
  }

  /// The update that is added to the parameter, F32; updates `moments`.
  Tensor change(const nn::ParamSpec& spec, Tensor parameter, Moments<Tensor>& moments,
                Tensor gradient, const Update& how) const {
    const LaPropOptions& c = options_;
    const Tensor p = convert(parameter, DType::F32);
    const Tensor g = clipped(spec, how.limited(gradient), p, c.agc);
    const Tensor nu = convert(moments.nu[0], DType::F32) * c.b2 + square(g) * (1.0 - c.b2);
    const Tensor scaled = g / (sqrt(nu / how.shared[1]) + c.eps);
    const Tensor mu = convert(moments.mu[0], DType::F32) * c.b1 + scaled * (1.0 - c.b1);
    Tensor direction = (c.nesterov ? mu * c.b1 + scaled * (1.0 - c.b1) : mu) / how.shared[0];
    if (c.weight_decay != 0.0 && (!c.decays || c.decays(spec))) {
      direction = direction + p * c.weight_decay;
    }
    moments.mu[0] = how.result(mu, moments.mu[0]);
    moments.nu[0] = how.result(nu, moments.nu[0]);
    return -how.learning_rate * direction;
  }

 private:
  LaPropOptions options_;
};

Tensor sum_of_squares(std::span<const Tensor> tensors) {
  check(!tensors.empty(), "[optimizer] there are no tensors");
  Tensor total_squares;
  for (const Tensor x : tensors) {
    const Tensor here = sum(square(convert(x, DType::F32)));
    total_squares = total_squares ? total_squares + here : here;
  }
  return total_squares;
}

}  // namespace

std::shared_ptr<const Optimizer> laprop(const LaPropOptions& options, Memory memory) {
  return std::make_shared<const LaProp>(options, memory);
}

LaPropStep laprop(const OptimizerState& state, std::span<const nn::ParamSpec> specs,
                  std::span<const Tensor> gradients, Tensor learning_rate,
                  const LaPropOptions& options) {
  check(specs.size() == state.params.size() && specs.size() == gradients.size(),
        "[optimizer] {} parameters, {} tensors and {} gradients were given", specs.size(),
        state.params.size(), gradients.size());
  const LaProp optimizer(options);
  LaPropStep step;
  step.state.count = state.count + 1.0;
  Update how{.factor = ones_like(learning_rate),
             .number = convert(step.state.count, DType::F32),
             .learning_rate = learning_rate};
  how.shared = optimizer.shared(how);
  for (size_t i = 0; i < specs.size(); ++i) {
    Moments<Tensor> moments{.mu = {state.mu[i]}, .nu = {state.nu[i]}};
    const Tensor change = optimizer.change(specs[i], state.params[i], moments, gradients[i], how);
    step.changes.push_back(change);
    step.state.params.push_back(
        how.result(convert(state.params[i], DType::F32) + change, state.params[i]));
    step.state.mu.push_back(moments.mu[0]);
    step.state.nu.push_back(moments.nu[0]);
  }
  return step;
}

Tensor norm(std::span<const Tensor> tensors) { return sqrt(sum_of_squares(tensors)); }

Tensor root_mean_square(std::span<const Tensor> tensors) {
  int64_t elements = 0;
  for (const Tensor x : tensors) {
    elements += x.shape().elements();
  }
  return sqrt(sum_of_squares(tensors) / static_cast<double>(elements));
}

double AnnealedRate::operator()(int64_t updates) const {
  if (updates < warmup) {
    return learning_rate * static_cast<double>(updates) / static_cast<double>(warmup);
  }
  if (kind == Kind::CONST) {
    return learning_rate;
  }
  const auto length = static_cast<double>(std::max<int64_t>(anneal - warmup, 1));
  const double done = std::clamp(static_cast<double>(updates - warmup) / length, 0.0, 1.0);
  const double end = kind == Kind::LINEAR ? 0.1 : 0.1 * learning_rate;
  const double left =
      kind == Kind::LINEAR ? 1.0 - done : 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  return learning_rate * (end + (1.0 - end) * left);
}

}  // namespace kinema::optimizers
