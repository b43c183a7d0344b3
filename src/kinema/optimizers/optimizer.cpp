#include "kinema/optimizers/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"
#include "kinema/kernels/settings.h"

namespace kinema::optimizers {
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

/// True if it is in host memory between steps.
bool waits(const nn::ParamSpec& spec) { return spec.memory != Memory::DEVICE; }

std::vector<Tensor> over_layers(const ScanOptions& loop, std::span<const Tensor> stacks,
                                const LayerRule& f) {
  return scan({}, {stacks.begin(), stacks.end()}, loop,
              [&](std::span<const Tensor>, std::span<const Tensor> layer) {
                return ScanResult{.carry = {}, .ys = f(layer)};
              })
      .ys;
}

std::vector<Tensor> fetched(std::span<const nn::ParamSpec> specs, std::span<const Tensor> tensors) {
  std::vector<Tensor> out(tensors.begin(), tensors.end());
  for (size_t i = 0; i < specs.size(); ++i) {
    out[i] = waits(specs[i]) ? fetch(out[i]) : out[i];
  }
  return out;
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
  if (std::ranges::none_of(specs, waits)) {
    return f(tensors);
  }
  if (specs.front().layers > 0) {
    ScanOptions loop{.length = specs.front().layers};
    for (size_t i = 0; i < specs.size(); ++i) {
      loop.in_place[i] = i;
    }
    return over_layers(loop, tensors, f);
  }
  std::vector<Tensor> out = f(fetched(specs, tensors));
  for (size_t i = 0; i < specs.size(); ++i) {
    out[i] = waits(specs[i]) ? offload(out[i]) : out[i];
  }
  return out;
}

std::vector<Tensor> from_layers(std::span<const nn::ParamSpec> specs,
                                std::span<const Tensor> tensors, const LayerRule& f) {
  if (std::ranges::none_of(specs, waits)) {
    return f(tensors);
  }
  return specs.front().layers > 0 ? over_layers({.length = specs.front().layers}, tensors, f)
                                  : f(fetched(specs, tensors));
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

namespace {

/// One parameter's part of an update: its tensors, and how a layer, or the whole stack, is updated.
struct Row {
  nn::ParamSpec spec;
  Moments<nn::ParamSpec> kept;
  RateFactors rates;
  Tensor parameter;
  Tensor gradient;
  Moments<Tensor> moments;

  /// The specs of parameter, mu and nu.
  std::vector<nn::ParamSpec> specs() const { return joined({spec}, kept.mu, kept.nu); }
  /// Their tensors, then the gradient, then factors of the rate if layers have different ones.
  std::vector<Tensor> tensors() const {
    std::vector<Tensor> out = joined({parameter}, moments.mu, moments.nu);
    out.push_back(gradient);
    if (rates.size() > 1) {
      const std::vector<float> factors(rates.begin(), rates.end());
      out.push_back(constant_f32(parameter.graph(), {std::ssize(factors)}, factors));
    }
    return out;
  }
};

/// The same, of the tensors that a LayerRule gets.
struct Layer {
  nn::ParamSpec spec;
  Tensor parameter;
  Moments<Tensor> moments;
  Tensor gradient;
  Update how;
};

Layer layer_of(const Row& row, std::span<const Tensor> in, const Update& how) {
  const size_t mu = row.kept.mu.size();
  const size_t nu = row.kept.nu.size();
  const auto part = [&](size_t from, size_t count) {
    const auto them = in.subspan(from, count);
    return std::vector<Tensor>(them.begin(), them.end());
  };
  Layer out{.spec = row.spec,
            .parameter = in[0],
            .moments = {.mu = part(1, mu), .nu = part(1 + mu, nu)},
            .gradient = in[1 + mu + nu],
            .how = how};
  if (in[0].rank() < row.spec.shape.rank()) {
    out.spec.shape = row.spec.layer_shape();
    out.spec.layers = 0;
  }
  if (row.rates.size() == 1) {
    out.how.learning_rate = how.learning_rate * row.rates[0];
  } else if (row.rates.size() > 1) {
    Tensor factors = in.back();
    if (factors.rank() > 0) {  // of the whole stack
      Dims dims(static_cast<size_t>(in[0].rank()), 1);
      dims[0] = factors.dim(0);
      factors = reshape(factors, dims);
    }
    out.how.learning_rate = how.learning_rate * factors;
  }
  out.how.has_own_rate = !row.rates.empty();
  return out;
}

/// Equal factors as one, and none for 1.
RateFactors simplified(const RateFactors& rates) {
  const bool equal = std::ranges::all_of(rates, [&](double each) { return each == rates.front(); });
  if (!equal) {
    return rates;
  }
  return rates.empty() || rates.front() == 1.0 ? RateFactors() : RateFactors{rates.front()};
}

/// The factors of a parameter's group and its own (lora_plus_ratio).
RateFactors rates_of(const nn::ParamSpec& spec, RateFactors of_group) {
  if (spec.rate != 1.0 && of_group.empty()) {
    of_group = {1.0};
  }
  for (double& rate : of_group) {
    rate *= spec.rate;
  }
  return of_group;
}

std::vector<Row> rows_of(const Optimizer& optimizer, const OptimizerState& state,
                         std::span<const nn::ParamSpec> specs, std::span<const Tensor> gradients,
                         std::span<const RateFactors> rates) {
  std::vector<Row> out;
  size_t mu = optimizer.common() ? 1 : 0;
  size_t nu = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    Row row{.spec = specs[i], .kept = optimizer.kept(specs[i])};
    row.rates = rates_of(specs[i], rates.empty() ? RateFactors() : simplified(rates[i]));
    row.parameter = state.params[i];
    row.gradient = gradients.empty() ? Tensor() : gradients[i];
    row.moments.mu = take(state.mu, mu, row.kept.mu.size());
    row.moments.nu = take(state.nu, nu, row.kept.nu.size());
    out.push_back(std::move(row));
  }
  check(mu == state.mu.size() && nu == state.nu.size(),
        "[optimizer] {} moments were given, and it keeps {}", state.mu.size() + state.nu.size(),
        mu + nu);
  return out;
}

/// The sums of all contributions, each as an F32 scalar.
std::vector<Tensor> sums_of(const Optimizer& optimizer, std::span<const Row> rows,
                            const Update& how) {
  std::vector<std::vector<Tensor>> addends;
  for (const Row& row : rows) {
    const std::vector<Tensor> added =
        from_layers(row.specs(), row.tensors(), [&](std::span<const Tensor> in) {
          const Layer layer = layer_of(row, in, how);
          return optimizer.contributions(layer.spec, layer.parameter, layer.moments, layer.gradient,
                                         layer.how);
        });
    addends.resize(std::max(addends.size(), added.size()));
    for (size_t i = 0; i < added.size(); ++i) {
      addends[i].push_back(reshape(added[i], {added[i].shape().elements()}));
    }
  }
  std::vector<Tensor> out;
  for (const std::vector<Tensor>& each : addends) {
    out.push_back(total(concatenate(each, Axis(0))));
  }
  return out;
}

Tensor next_common(const nn::ParamSpec& spec, const Update& how) {
  std::vector<Tensor> values;
  for (int64_t i = 0; i < spec.shape.dims[0]; ++i) {
    values.push_back(reshape(how.shared[static_cast<size_t>(i)], {1}));
  }
  return how.result(concatenate(values, Axis(0)), how.common);
}

}  // namespace

std::vector<Tensor> gradient_points(const Optimizer& optimizer, const OptimizerState& state,
                                    std::span<const nn::ParamSpec> specs,
                                    std::span<const DType> dtypes) {
  std::vector<Tensor> out;
  for (const Row& row : rows_of(optimizer, state, specs, {}, {})) {
    std::vector<Tensor> tensors = row.tensors();
    const size_t all = 1 + row.kept.mu.size() + row.kept.nu.size();
    tensors.resize(all);  // without a gradient
    const DType dtype = dtypes[out.size()];
    const size_t mu = row.kept.mu.size();
    out.push_back(from_layers(row.specs(), tensors, [&](std::span<const Tensor> in) {
      const auto part = [&](size_t from, size_t count) {
        const auto them = in.subspan(from, count);
        return std::vector<Tensor>(them.begin(), them.end());
      };
      const Moments<Tensor> moments{.mu = part(1, mu), .nu = part(1 + mu, in.size() - 1 - mu)};
      return std::vector{convert(optimizer.gradient_point(in[0], moments, state.count), dtype)};
    })[0]);
  }
  return out;
}

OptimizerState update(const Optimizer& optimizer, const OptimizerState& state,
                      std::span<const nn::ParamSpec> specs, std::span<const Tensor> gradients,
                      Tensor norm, Tensor learning_rate, const GradientLimits& limits, Tensor ok,
                      std::span<const RateFactors> rates) {
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
  const std::vector<Row> rows = rows_of(optimizer, state, specs, gradients, rates);
  const std::optional<nn::ParamSpec> common = optimizer.common();
  if (common) {
    how.common = state.mu[0];
    how.sums = sums_of(optimizer, rows, how);
  }
  how.shared = optimizer.shared(how);
  if (common) {
    // Otherwise XLA repeats the sums inside the loop of every parameter's update, which takes
    // minutes to compile.
    how.shared = optimization_barrier(how.shared);
  }
  if (common) {
    next.mu.push_back(next_common(*common, how));
  }
  for (const Row& row : rows) {
    const std::vector<Tensor> updated =
        layer_by_layer(row.specs(), row.tensors(), [&](std::span<const Tensor> in) {
          Layer layer = layer_of(row, in, how);
          const Tensor p = optimizer.update(layer.spec, layer.parameter, layer.moments,
                                            layer.gradient, layer.how);
          return joined({p}, layer.moments.mu, layer.moments.nu);
        });
    const auto nu_begin = updated.begin() + static_cast<ptrdiff_t>(1 + row.kept.mu.size());
    next.params.push_back(updated[0]);
    next.mu.insert(next.mu.end(), updated.begin() + 1, nu_begin);
    next.nu.insert(next.nu.end(), nu_begin, updated.end());
  }
  return next;
}

}  // namespace kinema::optimizers
