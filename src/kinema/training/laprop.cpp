#include "kinema/training/laprop.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kinema/core/error.h"
#include "kinema/training/joined_rows.h"

namespace kinema::training {
namespace {

/// One layer's tensor or a stack of them: sums of squares over a layer, with axes of size 1.
Tensor layer_norm_of(const nn::ParamSpec& spec, Tensor x) {
  std::vector<int64_t> axes;
  for (int64_t axis = spec.layers > 0 ? 1 : 0; axis < x.rank(); ++axis) {
    axes.push_back(axis);
  }
  return sqrt(axes.empty() ? square(x) : sum(square(x), axes, /*keep_dims=*/true));
}

/// What a gradient is divided by, from its norm and the parameter's.
Tensor clipping(Tensor gradient_norm, Tensor parameter_norm, double agc) {
  constexpr double kSmallestNorm = 1e-3;
  return maximum(gradient_norm / (agc * maximum(parameter_norm, kSmallestNorm)), 1.0);
}

/// The gradient, clipped relative to the parameter's norm.
Tensor clipped(const nn::ParamSpec& spec, Tensor gradient, Tensor parameter, double agc) {
  return agc == 0.0 ? gradient
                    : gradient / clipping(layer_norm_of(spec, gradient),
                                          layer_norm_of(spec, parameter), agc);
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
    const Tensor p = convert(parameter, DType::F32);
    const Tensor g = clipped(spec, how.limited(gradient), p, options_.agc);
    Moments<Tensor> wide{.mu = {convert(moments.mu[0], DType::F32)},
                         .nu = {convert(moments.nu[0], DType::F32)}};
    Tensor step = direction(g, wide, how);
    if (decays(spec)) {
      step = step + p * options_.weight_decay;
    }
    moments.mu[0] = how.result(wide.mu[0], moments.mu[0]);
    moments.nu[0] = how.result(wide.nu[0], moments.nu[0]);
    return -how.learning_rate * step;
  }

  bool decays(const nn::ParamSpec& spec) const {
    return options_.weight_decay != 0.0 && (!options_.decays || options_.decays(spec));
  }

  /// m / (1 - b1^t) from the clipped gradient, all F32; updates `moments`.
  Tensor direction(Tensor g, Moments<Tensor>& moments, const Update& how) const {
    const LaPropOptions& c = options_;
    const Tensor nu = moments.nu[0] * c.b2 + square(g) * (1.0 - c.b2);
    const Tensor scaled = g / (sqrt(nu / how.shared[1]) + c.eps);
    const Tensor mu = moments.mu[0] * c.b1 + scaled * (1.0 - c.b1);
    moments.mu[0] = mu;
    moments.nu[0] = nu;
    return (c.nesterov ? mu * c.b1 + scaled * (1.0 - c.b1) : mu) / how.shared[0];
  }

  const LaPropOptions& options() const { return options_; }

 private:
  LaPropOptions options_;
};

/// Of many small tensors each operation takes longer to start than to run: those of at most so many
/// elements are updated as one matrix.
constexpr int64_t kSmall = 1 << 16;

bool is_small(const Shape& shape) { return shape.elements() <= kSmall; }

/// The small tensors of a list, and the large ones' places.
struct Sorted {
  std::vector<size_t> small;
  std::vector<size_t> large;

  static Sorted of(std::span<const Tensor> tensors) {
    Sorted out;
    for (size_t i = 0; i < tensors.size(); ++i) {
      (is_small(tensors[i].shape()) ? out.small : out.large).push_back(i);
    }
    return out;
  }
};

std::vector<Tensor> those(std::span<const Tensor> tensors, std::span<const size_t> places) {
  std::vector<Tensor> out;
  for (const size_t i : places) {
    out.push_back(tensors[i]);
  }
  return out;
}

JoinedRows rows_of(std::span<const Tensor> tensors) {
  std::vector<Shape> shapes;
  for (const Tensor x : tensors) {
    shapes.push_back(x.shape());
  }
  return JoinedRows(std::move(shapes));
}

Tensor sum_of_squares(std::span<const Tensor> tensors) {
  check(!tensors.empty(), "[optimizer] there are no tensors");
  const Sorted sorted = Sorted::of(tensors);
  std::vector<Tensor> parts = those(tensors, sorted.large);
  if (!sorted.small.empty()) {
    const std::vector<Tensor> small = those(tensors, sorted.small);
    parts.push_back(rows_of(small).join(small));
  }
  Tensor total;
  for (const Tensor x : parts) {
    const Tensor here = sum(square(convert(x, DType::F32)));
    total = total ? total + here : here;
  }
  return total;
}

/// Updates the tensors at `places` together, which must not be layers of stacks.
void update_joined(const LaProp& optimizer, const OptimizerState& state,
                   std::span<const nn::ParamSpec> specs, std::span<const Tensor> gradients,
                   std::span<const size_t> places, const Update& how, LaPropStep& step) {
  const std::vector<Tensor> params = those(state.params, places);
  const JoinedRows rows = rows_of(params);
  const Tensor p = rows.join(params);
  Tensor g = rows.join(those(gradients, places));
  if (const double agc = optimizer.options().agc; agc != 0.0) {
    const auto norms = [&](Tensor x) { return sqrt(rows.sums(square(x))); };
    g = g / rows.spread(clipping(norms(g), norms(p), agc));
  }
  Moments<Tensor> moments{.mu = {rows.join(those(state.mu, places))},
                          .nu = {rows.join(those(state.nu, places))}};
  Tensor direction = optimizer.direction(g, moments, how);
  std::vector<float> decay;
  for (const size_t i : places) {
    const double own = optimizer.decays(specs[i]) ? optimizer.options().weight_decay : 0.0;
    decay.push_back(static_cast<float>(own));
  }
  if (std::ranges::any_of(decay, [](float x) { return x != 0.0F; })) {
    const auto count = static_cast<int64_t>(decay.size());
    direction = direction + p * rows.spread(constant_f32(p.graph(), {count}, decay));
  }
  const Tensor change = -how.learning_rate * direction;
  const auto put = [&](std::vector<Tensor>& out, Tensor matrix, std::span<const Tensor> before) {
    const std::vector<Tensor> parts = rows.split(matrix);
    for (size_t k = 0; k < places.size(); ++k) {
      out[places[k]] = before.empty() ? parts[k] : how.result(parts[k], before[places[k]]);
    }
  };
  put(step.changes, change, {});
  put(step.state.params, p + change, state.params);
  put(step.state.mu, moments.mu[0], state.mu);
  put(step.state.nu, moments.nu[0], state.nu);
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
  for (auto* list : {&step.changes, &step.state.params, &step.state.mu, &step.state.nu}) {
    list->resize(specs.size());
  }
  std::vector<size_t> joined;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].layers == 0 && is_small(state.params[i].shape())) {
      joined.push_back(i);
      continue;
    }
    Moments<Tensor> moments{.mu = {state.mu[i]}, .nu = {state.nu[i]}};
    const Tensor change = optimizer.change(specs[i], state.params[i], moments, gradients[i], how);
    step.changes[i] = change;
    step.state.params[i] =
        how.result(convert(state.params[i], DType::F32) + change, state.params[i]);
    step.state.mu[i] = moments.mu[0];
    step.state.nu[i] = moments.nu[0];
  }
  if (!joined.empty()) {
    update_joined(optimizer, state, specs, gradients, joined, how, step);
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

}  // namespace kinema::training
