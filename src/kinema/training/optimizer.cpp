#include "kinema/training/optimizer.h"

#include <cmath>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"
#include "kinema/kernels/settings.h"

namespace kinema::training {
namespace {

Tensor clip_value(Tensor g, double limit) {
  return limit > 0.0 ? minimum(maximum(g, -limit), limit) : g;
}

/// The factor that brings the norm down to the limit; 1 where it is below.
Tensor norm_factor(Tensor norm, double limit) {
  const Tensor one = ones_like(norm);
  return select(compare(norm, Comparison::GE, limit), limit / norm, one);
}

/// The next `count` of a list, from `at` on, which moves behind them.
std::vector<Tensor> take(const std::vector<Tensor>& all, size_t& at, size_t count) {
  check(at + count <= all.size(), "[optimizer] {} moments are too few", all.size());
  const auto first = all.begin() + static_cast<ptrdiff_t>(at);
  at += count;
  return {first, first + static_cast<ptrdiff_t>(count)};
}

}  // namespace

Tensor Update::limited(Tensor gradient) const {
  return clip_value(convert(gradient, DType::F32), max_value) * factor;
}

Tensor Update::result(Tensor updated, Tensor old) const {
  const Tensor rounded = convert(updated, old.dtype());
  return ok ? select(ok, rounded, old) : rounded;
}

int64_t layer_rank(const nn::ParamSpec& spec) {
  return spec.shape.rank() - (spec.layers > 0 ? 1 : 0);
}

Tensor one_minus_power(double b, Tensor t) {
  // 1 - e^x = -2 h / (1 - h) with h = tanh(x / 2), x = t ln b.
  const Tensor h = tanh(t * (0.5 * std::log(b)));
  return (-2.0 * h) / (1.0 - h);
}

GradientSizes gradient_sizes(std::span<const nn::ParamSpec> specs,
                             std::span<const Tensor> gradients, std::optional<double> max_value) {
  check(specs.size() == gradients.size(), "[gradient_sizes] {} gradients for {} parameters",
        gradients.size(), specs.size());
  kernels::GradientSizesSettings settings{.rows = {}, .max_value = max_value.value_or(0.0)};
  for (const nn::ParamSpec& spec : specs) {
    settings.rows.push_back(spec.layers > 0 ? spec.layers : 1);
  }
  const std::vector<Tensor> sizes =
      fused("gradient_sizes", settings, {gradients.begin(), gradients.end()},
            [&](std::span<const Tensor> in) -> std::vector<Tensor> {
              std::vector<Tensor> squares, largest;
              for (size_t i = 0; i < in.size(); ++i) {
                // Not through a flat view: over a mesh, that would gather the gradient.
                std::vector<int64_t> axes;
                for (int64_t axis = specs[i].layers > 0 ? 1 : 0; axis < in[i].rank(); ++axis) {
                  axes.push_back(axis);
                }
                const Dims row{settings.rows[i]};
                const Tensor g = convert(in[i], DType::F32);
                const Tensor squared = square(clip_value(g, settings.max_value));
                squares.push_back(reshape(axes.empty() ? squared : sum(squared, axes), row));
                largest.push_back(reshape(axes.empty() ? abs(g) : max(abs(g), axes), row));
              }
              return {concatenate(squares, Axis(0)), concatenate(largest, Axis(0))};
            });
  return {sizes[0], sizes[1]};
}

Tensor total(Tensor x) {
  // As a dot: XLA would turn the sum of joined scalars into a chain of additions and repeat that
  // chain inside the loop of every parameter's update, which takes minutes to compile.
  return dot_general(x, ones_like(x), {.lhs_contract = {0}, .rhs_contract = {0}},
                     Precision::HIGHEST);
}

OptimizerState update(const Optimizer& optimizer, const OptimizerState& state,
                      std::span<const nn::ParamSpec> specs, std::span<const Tensor> gradients,
                      Tensor norm, Tensor learning_rate, const GradientLimits& limits, Tensor ok) {
  check(state.params.size() == gradients.size() && specs.size() == gradients.size(),
        "[optimizer] {} gradients for {} parameters", gradients.size(), state.params.size());
  OptimizerState next;
  const Tensor count = state.count + 1.0;
  next.count = ok ? select(ok, count, state.count) : count;
  if (limits.max_norm && limits.max_value) {  // the norm that counts is that of the limited ones
    norm = sqrt(total(gradient_sizes(specs, gradients, limits.max_value).squares));
  }
  Update how{
      .factor = limits.max_norm ? norm_factor(norm, *limits.max_norm) : ones_like(learning_rate),
      .max_value = limits.max_value.value_or(0.0),
      .number = convert(count, DType::F32),
      .learning_rate = learning_rate,
      .ok = ok};
  how.shared = optimizer.shared(how);
  size_t mu = 0;
  size_t nu = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Moments<nn::ParamSpec> kept = optimizer.moments(specs[i]);
    Moments<Tensor> moments{.mu = take(state.mu, mu, kept.mu.size()),
                            .nu = take(state.nu, nu, kept.nu.size())};
    next.params.push_back(optimizer.update(specs[i], state.params[i], moments, gradients[i], how));
    next.mu.insert(next.mu.end(), moments.mu.begin(), moments.mu.end());
    next.nu.insert(next.nu.end(), moments.nu.begin(), moments.nu.end());
  }
  check(mu == state.mu.size() && nu == state.nu.size(),
        "[optimizer] {} moments were given, and it keeps {}", state.mu.size() + state.nu.size(),
        mu + nu);
  return next;
}

}  // namespace kinema::training
