#include "kinema/training/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"
#include "kinema/kernels/settings.h"

namespace kinema::training {
namespace {

Tensor clip_value(Tensor g, double limit) {
  return limit > 0.0 ? minimum(maximum(g, -limit), limit) : g;
}

/// The factor that reduces the norm to the limit; 1 if it is below.
Tensor norm_factor(Tensor norm, double limit) {
  const Tensor one = ones_like(norm);
  return select(compare(norm, Comparison::GE, limit), limit / norm, one);
}

template <typename T>
std::vector<T> joined(std::vector<T> first, const std::vector<T>& second,
                      const std::vector<T>& third) {
  first.insert(first.end(), second.begin(), second.end());
  first.insert(first.end(), third.begin(), third.end());
  return first;
}

/// The next `count` elements of a list from `at`, which is advanced.
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

Moments<nn::ParamSpec> Optimizer::kept(const nn::ParamSpec& parameter) const {
  Moments<nn::ParamSpec> out = moments(parameter);
  set_memory(out.mu, memory_);
  set_memory(out.nu, memory_);
  return out;
}

void set_memory(std::span<nn::ParamSpec> kept, Memory memory) {
  for (nn::ParamSpec& spec : kept) {
    if (layer_rank(spec) >= 2) {
      spec.memory = memory;
    }
  }
}

std::vector<Tensor> layer_by_layer(std::span<const nn::ParamSpec> specs,
                                   std::span<const Tensor> tensors, const LayerRule& f) {
  const auto waits = [](const nn::ParamSpec& spec) { return spec.memory != Memory::DEVICE; };
  if (std::ranges::none_of(specs, waits)) {
    return f(tensors);
  }
  std::vector<Tensor> in(tensors.begin(), tensors.end());
  if (const int64_t layers = specs.front().layers; layers > 0) {
    ScanOptions loop{.length = layers};
    for (size_t i = 0; i < specs.size(); ++i) {
      loop.in_place[i] = i;
    }
    return scan({}, in, loop,
                [&](std::span<const Tensor>, std::span<const Tensor> layer) {
                  return ScanResult{.carry = {}, .ys = f(layer)};
                })
        .ys;
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    in[i] = waits(specs[i]) ? fetch(in[i]) : in[i];
  }
  std::vector<Tensor> out = f(in);
  for (size_t i = 0; i < specs.size(); ++i) {
    out[i] = waits(specs[i]) ? offload(out[i]) : out[i];
  }
  return out;
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
                // Not through a flattened view: over a mesh that would gather the gradient.
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
  // A dot product: XLA would turn the sum of concatenated scalars into a chain of additions and
  // repeat that chain inside the loop of every parameter's update, which takes minutes to compile.
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
  if (limits.max_norm && limits.max_value) {  // the norm of the clipped gradients is used
    norm = sqrt(total(gradient_sizes(specs, gradients, limits.max_value).squares));
  }
  Update how{
      .factor = limits.max_norm ? norm_factor(norm, *limits.max_norm) : ones_like(learning_rate),
      .max_value = limits.max_value.value_or(0.0),
      .number = convert(count, DType::F32),
      .learning_rate = learning_rate,
      .ok = ok};
  how.shared = optimizer.shared(how);
  std::map<double, Update> by_rate;
  for (const nn::ParamSpec& spec : specs) {
    const auto [found, fresh] = by_rate.emplace(spec.rate, how);
    if (fresh && spec.rate != 1.0) {
      found->second.learning_rate = learning_rate * spec.rate;
      found->second.shared = optimizer.shared(found->second);
    }
  }
  size_t mu = 0;
  size_t nu = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Moments<nn::ParamSpec> kept = optimizer.kept(specs[i]);
    const std::vector<nn::ParamSpec> changed = joined({specs[i]}, kept.mu, kept.nu);
    std::vector<Tensor> all = joined({state.params[i]}, take(state.mu, mu, kept.mu.size()),
                                     take(state.nu, nu, kept.nu.size()));
    all.push_back(gradients[i]);
    const size_t first_nu = 1 + kept.mu.size();
    const std::vector<Tensor> updated =
        layer_by_layer(changed, all, [&](std::span<const Tensor> in) {
          nn::ParamSpec spec = specs[i];
          if (in[0].rank() < spec.shape.rank()) {
            spec.shape = spec.layer_shape();
            spec.layers = 0;
          }
          const auto part = [&](size_t from, size_t count) {
            const auto them = in.subspan(from, count);
            return std::vector<Tensor>(them.begin(), them.end());
          };
          Moments<Tensor> moments{.mu = part(1, kept.mu.size()),
                                  .nu = part(first_nu, kept.nu.size())};
          const Tensor p = optimizer.update(spec, in[0], moments, in.back(), by_rate.at(spec.rate));
          return joined({p}, moments.mu, moments.nu);
        });
    const auto nu_begin = updated.begin() + static_cast<ptrdiff_t>(first_nu);
    next.params.push_back(updated[0]);
    next.mu.insert(next.mu.end(), updated.begin() + 1, nu_begin);
    next.nu.insert(next.nu.end(), nu_begin, updated.end());
  }
  check(mu == state.mu.size() && nu == state.nu.size(),
        "[optimizer] {} moments were given, and it keeps {}", state.mu.size() + state.nu.size(),
        mu + nu);
  return next;
}

}  // namespace kinema::training
