#include "kinema/models/dreamer/heads.h"

#include <cmath>

namespace kinema::dreamer {

nn::Mlp mlp_of(const nn::Params& params, int64_t in, const HeadConfig& config) {
  return {params / "mlp",
          in,
          config.units,
          config.layers,
          {.activation = config.act, .norm = config.norm}};
}

TwoHotHead::TwoHotHead(const nn::Params& params, int64_t in, const HeadConfig& config)
    : bins_(config.bins),
      mlp_(mlp_of(params, in, config)),
      logits_(params / "head" / "logits", config.units, config.bins, config.outscale) {}

nn::TwoHot TwoHotHead::operator()(Tensor x, const nn::ModelOptions& options) const {
  const Tensor logits = logits_(mlp_(x, options.precision), options.precision);
  return {logits, nn::symexp_bins(logits.graph(), bins_)};
}

BinaryHead::BinaryHead(const nn::Params& params, int64_t in, const HeadConfig& config)
    : mlp_(mlp_of(params, in, config)),
      logit_(params / "head" / "logit", config.units, 1, config.outscale) {}

nn::Binary BinaryHead::operator()(Tensor x, const nn::ModelOptions& options) const {
  return nn::Binary(squeeze(logit_(mlp_(x, options.precision), options.precision), Axis(-1)));
}

Tensor ActionDistribution::sample(Tensor noise) const {
  return categorical_ ? categorical_->sample(noise) : normal_->sample(noise);
}

Tensor ActionDistribution::summed(Tensor elements) const {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < static_cast<int64_t>(space_.shape.size()); ++i) {
    axes.push_back(-1 - i);
  }
  return axes.empty() ? elements : sum(elements, axes);
}

Tensor ActionDistribution::log_prob(Tensor action) const {
  return summed(categorical_ ? categorical_->log_prob(action) : normal_->log_prob(action));
}

Tensor ActionDistribution::entropy() const {
  return summed(categorical_ ? categorical_->entropy() : normal_->entropy());
}

std::pair<double, double> ActionDistribution::entropy_bounds() const {
  if (categorical_) {
    return {0.0, std::log(static_cast<double>(space_.classes))};
  }
  return {nn::Normal::entropy_of(least_), nn::Normal::entropy_of(most_)};
}

PolicyHead::PolicyHead(const nn::Params& params, int64_t in, const AgentConfig& config)
    : config_(config.policy), mlp_(mlp_of(params, in, config.policy)) {
  for (const auto& [name, space] : sorted_by_name(config.actions)) {
    const nn::Params head = params / "head" / name;
    Output output{.name = name, .space = space};
    const int64_t features = space.features();
    const auto add = [&](const char* kind) {
      output.dense.emplace_back(head / kind, config_.units, features, config_.outscale);
    };
    if (space.is_discrete()) {
      add("logits");
    } else {
      add("mean");
      add("stddev");
    }
    outputs_.push_back(std::move(output));
  }
}

ActionDistributions PolicyHead::operator()(Tensor x, const nn::ModelOptions& options) const {
  const Tensor hidden = mlp_(x, options.precision);
  ActionDistributions policy;
  for (const Output& output : outputs_) {
    const Space& space = output.space;
    Dims dims = x.shape().dims;
    dims.pop_back();
    dims.insert(dims.end(), space.shape.begin(), space.shape.end());
    if (space.is_discrete()) {
      dims.push_back(space.classes);
    }
    const auto of = [&](size_t i) {
      return reshape(output.dense[i](hidden, options.precision), dims);
    };
    policy.emplace(
        output.name,
        space.is_discrete()
            ? ActionDistribution(space, nn::Categorical(of(0)))
            : ActionDistribution(space,
                                 nn::Normal::bounded(of(0), of(1), config_.minstd, config_.maxstd),
                                 config_));
  }
  return policy;
}

TensorMap sample(const ActionDistributions& policy, const ActionDraws& draws) {
  TensorMap actions;
  for (const auto& [name, distribution] : policy) {
    const auto given = draws.actions.find(name);
    actions[name] = given != draws.actions.end() ? given->second
                                                 : distribution.sample(value_of(draws.noise, name));
  }
  return actions;
}

}  // namespace kinema::dreamer
