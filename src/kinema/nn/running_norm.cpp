#include "kinema/nn/running_norm.h"

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/nn/norm.h"

namespace kinema::nn {

RunningNorm::Kind RunningNorm::kind_from_string(std::string_view name) {
  check(name == "none" || name == "perc" || name == "meanstd",
        "[norm] `{}` is not a statistic\n  there are none, perc and meanstd", name);
  return name == "none" ? Kind::NONE : name == "perc" ? Kind::PERCENTILES : Kind::MEAN_STD;
}

std::vector<std::string> RunningNorm::state_names() const {
  if (options_.kind == Kind::NONE) {
    return {};
  }
  std::vector<std::string> names = options_.kind == Kind::PERCENTILES
                                       ? std::vector<std::string>{"lo", "hi"}
                                       : std::vector<std::string>{"mean", "sqrs"};
  if (options_.debias) {
    names.emplace_back("corr");
  }
  return names;
}

RunningNorm::Stats RunningNorm::stats(Graph& graph, std::span<const Tensor> state) const {
  check(state.size() == state_names().size(), "[norm] a state has {} scalars but must have {}",
        state.size(), state_names().size());
  if (options_.kind == Kind::NONE) {
    const Shape scalar{DType::F32, {}};
    return {.offset = constant(graph, 0.0, scalar), .scale = constant(graph, 1.0, scalar)};
  }
  const auto unbiased = [&](Tensor average) {
    return options_.debias ? average / maximum(state[2], options_.rate) : average;
  };
  const Tensor first = unbiased(state[0]);
  const Tensor second = unbiased(state[1]);
  const Tensor scale = options_.kind == Kind::PERCENTILES
                           ? second - first
                           : sqrt(maximum(second - square(first), 0.0));
  return {.offset = stop_gradient(first), .scale = stop_gradient(maximum(scale, options_.limit))};
}

std::vector<Tensor> RunningNorm::updated(std::span<const Tensor> state, Tensor x) const {
  if (options_.kind == Kind::NONE) {
    return {};
  }
  const Tensor values = reshape(stop_gradient(widened(x)), {-1});
  std::vector<Tensor> now;
  if (options_.kind == Kind::PERCENTILES) {
    const Tensor in_order = sorted(values);
    now = {percentile(in_order, options_.low), percentile(in_order, options_.high)};
  } else {
    now = {mean(values), mean(square(values))};
  }
  if (options_.debias) {
    now.push_back(ones_like(now[0]));
  }
  for (size_t i = 0; i < now.size(); ++i) {
    now[i] = (1.0 - options_.rate) * state[i] + options_.rate * now[i];
  }
  return now;
}

Tensor percentile(Tensor sorted, double percent) {
  check(sorted.rank() == 1 && percent >= 0.0 && percent <= 100.0,
        "[percentile] {} of {}: expected one axis and a number from 0 to 100", percent,
        to_string(sorted.shape()));
  const auto last = static_cast<double>(sorted.dim(0) - 1);
  const double position = percent / 100.0 * last;
  const double below = std::floor(position);
  const auto at = [&](double i) {
    return reshape(slice(sorted, Axis(0), static_cast<int64_t>(std::min(i, last)), 1), {});
  };
  const double part = position - below;
  return at(below) * (1.0 - part) + at(below + 1.0) * part;
}

}  // namespace kinema::nn
