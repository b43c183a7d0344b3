#include "kinema/models/dreamer/agent.h"

#include "kinema/core/error.h"
#include "kinema/nn/linear.h"

namespace kinema::dreamer {
namespace {

TwoHotHead slow_head(const nn::Params& root, const AgentConfig& config) {
  return {root / "slowval", config.rssm.features(), config.value};
}

nn::SpecCollector collector() {
  return nn::SpecCollector([](const std::string&) { return DType::F32; });
}

}  // namespace

Networks::Networks(const nn::Params& root, const AgentConfig& c)
    : encoder(root / "enc", c),
      rssm(root / "dyn", c, Encoder::tokens(c)),
      decoder(root / "dec", c),
      reward(root / "rew", c.rssm.features(), c.reward),
      continuation(root / "con", c.rssm.features(), c.continuation),
      policy(root / "pol", c.rssm.features(), c),
      value(root / "val", c.rssm.features(), c.value) {}

std::vector<nn::ParamSpec> parameters(const AgentConfig& config) {
  validate(config);
  nn::SpecCollector specs = collector();
  const Networks networks(nn::Params(specs, "", '/'), config);
  return specs.take();
}

std::vector<nn::ParamSpec> slow_parameters(const AgentConfig& config) {
  nn::SpecCollector specs = collector();
  slow_head(nn::Params(specs, "", '/'), config);
  std::vector<nn::ParamSpec> slow = specs.take();
  for (nn::ParamSpec& spec : slow) {
    spec.trained = false;
  }
  return slow;
}

std::vector<Tensor> slow_update(const AgentConfig& config, std::span<const Tensor> slow,
                                std::span<const Tensor> value, Tensor count) {
  check(slow.size() == value.size(), "[dreamer] the slow critic has {} tensors, the critic {}",
        slow.size(), value.size());
  const Tensor turn = compare(
      remainder(count,
                constant(count.graph(), static_cast<double>(config.slow_every), count.shape())),
      Comparison::EQ, 0.0);
  const Tensor mix = convert(turn, DType::F32) * config.slow_rate;
  std::vector<Tensor> out;
  for (size_t i = 0; i < slow.size(); ++i) {
    out.push_back(mix * value[i] + (1.0 - mix) * slow[i]);
  }
  return out;
}

PerNorm<std::vector<std::string>> norm_state_names(const AgentConfig& config) {
  const Norms norms(config);
  const auto named = [](const char* norm, const std::vector<std::string>& scalars) {
    std::vector<std::string> names;
    for (const std::string& scalar : scalars) {
      names.push_back(std::string(norm) + "/" + scalar + "/value");
    }
    return names;
  };
  return {.returns = named("retnorm", norms.returns.state_names()),
          .values = named("valnorm", norms.values.state_names()),
          .advantages = named("advnorm", norms.advantages.state_names())};
}

Batch batch_of(const AgentConfig& config, const TensorMap& steps, const RssmState& carried,
               int64_t context) {
  const int64_t length = value_of(steps, "is_first").dim(1) - context;
  check(context > 0 && length > 0, "[dreamer] {} steps with {} of context leave nothing to train",
        length + context, context);
  const auto from = [&](const std::string& name, int64_t first) {
    return slice(value_of(steps, name), Axis(1), first, length);
  };
  const auto flag = [&](const char* name) {
    return compare(from(name, context), Comparison::NE, 0.0);
  };
  Batch batch{.reward = nn::as(from("reward", context), DType::F32),
              .is_first = flag("is_first"),
              .is_last = flag("is_last"),
              .is_terminal = flag("is_terminal")};
  for (const auto& [name, space] : config.observations) {
    batch.observations[name] = from(name, context);
  }
  for (const auto& [name, space] : config.actions) {
    batch.previous_actions[name] = from(name, context - 1);
  }
  const auto at = [&](const char* name, int64_t time) {
    return squeeze(slice(value_of(steps, name), Axis(1), time, 1), Axis(1));
  };
  const Tensor is_replayed = compare(at("consec", 0), Comparison::EQ, 0.0);
  const auto state = [&](const char* name, Tensor other) {
    const Tensor stored = nn::as(at(name, context - 1), other.dtype());
    Dims each(static_cast<size_t>(stored.rank()), 1);
    each[0] = stored.dim(0);
    return select(reshape(is_replayed, each), stored, other);
  };
  batch.state = {.deter = state("dyn/deter", carried.deter),
                 .stoch = state("dyn/stoch", carried.stoch)};
  return batch;
}

Agent::Agent(const AgentConfig& config, const nn::ModelOptions& options,
             std::span<const Tensor> params, std::span<const Tensor> slow_params)
    : config_(config), options_(options), binder_(std::make_unique<nn::Binder>()) {
  const auto bind = [&](const std::vector<nn::ParamSpec>& specs, std::span<const Tensor> tensors) {
    check(specs.size() == tensors.size(), "[dreamer] {} tensors were given for {} parameters",
          tensors.size(), specs.size());
    for (size_t i = 0; i < specs.size(); ++i) {
      binder_->add(specs[i].name, tensors[i]);
    }
  };
  bind(parameters(config), params);
  const nn::Params root(*binder_, "", '/');
  networks_ = std::make_unique<Networks>(root, config);
  if (!slow_params.empty()) {
    bind(slow_parameters(config), slow_params);
    slow_value_ = std::make_unique<TwoHotHead>(slow_head(root, config));
  }
}

Tensor Agent::tokens(const TensorMap& observations) const {
  const Tensor all = networks_->encoder(merge_leading_axes(observations), options_);
  return split_leading_axis(all, observations.begin()->second.dim(0));
}

Tensor Agent::action_vectors(const TensorMap& actions) const {
  const Tensor all = vector_of(config_.actions, merge_leading_axes(actions), /*compress=*/false,
                               options_.activations_dtype);
  return split_leading_axis(all, actions.begin()->second.dim(0));
}

Agent::Act Agent::act(const Memory& before, const TensorMap& observations, Tensor reset,
                      const Draws& draws, const ActionDraws& action_draws) const {
  const auto one_step = [](Tensor x) { return x ? expand_dims(x, Axis(1)) : x; };
  const Tensor tokens = networks_->encoder(observations, options_);
  const Tensor actions =
      vector_of(config_.actions, before.actions, /*compress=*/false, options_.activations_dtype);
  const RssmFeatures now = networks_->rssm.observe(
      before.state, one_step(tokens), one_step(actions), one_step(reset),
      {.noise = one_step(draws.noise), .index = one_step(draws.index)}, options_);
  const Tensor feature = squeeze(now.vector(), Axis(1));
  return {.memory = {.state = {.deter = squeeze(now.deter, Axis(1)),
                               .stoch = squeeze(now.stoch, Axis(1))},
                     .actions = sample(networks_->policy(feature, options_), action_draws)},
          .index = squeeze(now.index, Axis(1))};
}

}  // namespace kinema::dreamer
