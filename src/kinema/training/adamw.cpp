#include "kinema/training/adamw.h"

#include <cmath>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"
#include "kinema/kernels/settings.h"

namespace kinema::training {

namespace {

/// 1 - b^t without the cancellation that 1 - pow(b, t) has in F32 for b near 1.
Tensor one_minus_power(double b, Tensor t) {
  // 1 - e^x = -2 h / (1 - h) with h = tanh(x / 2), x = t ln b.
  const Tensor h = tanh(t * (0.5 * std::log(b)));
  return (-2.0 * h) / (1.0 - h);
}

Tensor clip_value(Tensor g, const std::optional<double>& limit) {
  return limit ? minimum(maximum(g, -*limit), *limit) : g;
}

/// The factor that brings the norm down to the limit; 1 where it is below.
Tensor norm_factor(Tensor norm, double limit) {
  const Tensor one = ones_like(norm);
  return select(compare(norm, Comparison::GE, limit), limit / norm, one);
}

/// Rank of one layer's tensor.
int64_t layer_rank(const nn::ParamSpec& spec) {
  return spec.shape.rank() - (spec.layers > 0 ? 1 : 0);
}

Tensor keep_unless(Tensor ok, Tensor updated, Tensor old) {
  return ok ? select(ok, updated, old) : updated;
}

/// One parameter's update, in terms of kernels/settings.h: p, mu, nu, gradient, scalars -> p, mu,
/// nu.
std::vector<Tensor> update(const kernels::AdamWSettings& c, std::span<const Tensor> in,
                           bool may_keep) {
  const Tensor p = convert(in[0], DType::F32);
  const auto scalar = [&](int64_t i) { return reshape(slice(in[4], Axis(0), i, 1), {}); };
  Tensor g = convert(in[3], DType::F32);
  if (c.max_value > 0.0) {
    g = clip_value(g, c.max_value);
  }
  g = g * scalar(0);
  const Tensor mu = convert(in[1], DType::F32) * c.b1 + g * (1.0 - c.b1);
  const Tensor nu = convert(in[2], DType::F32) * c.b2 + square(g) * (1.0 - c.b2);
  Tensor change = mu * scalar(1) / (sqrt(nu * scalar(2)) + c.eps);
  if (c.weight_decay != 0.0) {
    change = change + p * c.weight_decay;
  }
  const Tensor ok = may_keep ? compare(scalar(4), Comparison::NE, 0.0) : Tensor();
  const auto result = [&](Tensor updated, Tensor old) {
    return keep_unless(ok, convert(updated, old.dtype()), old);
  };
  return {result(p - scalar(3) * change, in[0]), result(mu, in[1]), result(nu, in[2])};
}

}  // namespace

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
                const Tensor squared = square(clip_value(g, max_value));
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

AdamWState adamw(const AdamWState& state, std::span<const nn::ParamSpec> specs,
                 std::span<const Tensor> gradients, Tensor norm, Tensor learning_rate,
                 const AdamWOptions& options, Tensor ok) {
  check(state.params.size() == gradients.size() && specs.size() == gradients.size(),
        "[adamw] {} gradients for {} parameters", gradients.size(), state.params.size());
  AdamWState next;
  next.count = state.count + 1.0;
  const Tensor t = convert(next.count, DType::F32);
  const Tensor mu_scale = 1.0 / one_minus_power(options.b1, t);
  const Tensor nu_scale = 1.0 / one_minus_power(options.b2, t);
  next.count = keep_unless(ok, next.count, state.count);

  Tensor factor;
  if (options.max_norm) {
    if (options.max_value) {  // the norm that counts is that of the clipped gradients
      norm = sqrt(total(gradient_sizes(specs, gradients, options.max_value).squares));
    }
    factor = norm_factor(norm, *options.max_norm);
  }

  if (!factor) {
    factor = ones_like(learning_rate);
  }
  const Tensor go_on = ok ? convert(ok, DType::F32) : ones_like(learning_rate);
  std::vector<Tensor> scalars;
  for (const Tensor x : {factor, mu_scale, nu_scale, learning_rate, go_on}) {
    scalars.push_back(reshape(x, {1}));
  }
  const Tensor scalar_row = concatenate(scalars, Axis(0));
  for (size_t i = 0; i < gradients.size(); ++i) {
    const bool decays = layer_rank(specs[i]) >= options.decay_min_rank;
    const kernels::AdamWSettings settings{.b1 = options.b1,
                                          .b2 = options.b2,
                                          .eps = options.eps,
                                          .weight_decay = decays ? options.weight_decay : 0.0,
                                          .max_value = options.max_value.value_or(0.0)};
    const std::vector<Tensor> updated = fused(
        "adamw", settings, {state.params[i], state.mu[i], state.nu[i], gradients[i], scalar_row},
        [&](std::span<const Tensor> in) { return update(settings, in, static_cast<bool>(ok)); });
    next.params.push_back(updated[0]);
    next.mu.push_back(updated[1]);
    next.nu.push_back(updated[2]);
  }
  return next;
}

}  // namespace kinema::training
