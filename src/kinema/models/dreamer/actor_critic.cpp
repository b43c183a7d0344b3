#include "kinema/models/dreamer/actor_critic.h"

#include "kinema/nn/linear.h"
#include "kinema/nn/returns.h"

namespace kinema::dreamer {
namespace {

/// All but the last of the second axis.
Tensor but_last(Tensor x) { return slice(x, Axis(1), 0, x.dim(1) - 1); }

/// x [n, h] with a last state, of which nothing counts: [n, h + 1].
Tensor with_last(Tensor x) { return pad(x, Axis(1), 0, 1); }

Tensor standard_deviation(Tensor x) { return sqrt(mean(square(x - mean(x)))); }

/// The critic's cross entropy to returns, and to the slow critic's prediction: [n, t - 1].
Tensor value_loss(const nn::TwoHot& value, const nn::TwoHot& slow_value, Tensor returns,
                  const ReturnConfig& config) {
  const Tensor to_returns = value.loss(stop_gradient(with_last(returns)));
  const Tensor to_slow = value.loss(stop_gradient(slow_value.mean()));
  return but_last(to_returns + config.slowreg * to_slow);
}

Tensor normed(Tensor x, const nn::RunningNorm::Stats& stats) {
  return (x - stats.offset) / stats.scale;
}

/// The policy's log probabilities of the actions taken, and entropies, in all states.
struct PolicyTerms {
  Tensor log_prob;
  Tensor entropy;
  TensorMap entropies;
};

PolicyTerms policy_terms(const Rollout& rollout) {
  PolicyTerms terms;
  const auto add = [](Tensor& sum, Tensor x) { sum = sum ? sum + x : x; };
  for (const auto& [name, policy] : rollout.policy) {
    const Tensor entropy = policy.entropy();
    terms.entropies[name] = entropy;
    add(terms.entropy, entropy);
    add(terms.log_prob, policy.log_prob(stop_gradient(value_of(rollout.actions, name))));
  }
  return terms;
}

void add_entropy_metrics(TensorMap& metrics, const Rollout& rollout, const PolicyTerms& terms) {
  for (const auto& [name, policy] : rollout.policy) {
    const Tensor entropy = mean(but_last(terms.entropies.at(name)));
    metrics["ent/" + name] = entropy;
    if (policy.space().shape.empty()) {
      const auto [least, most] = policy.entropy_bounds();
      metrics["rand/" + name] = (entropy - least) / (most - least);
    }
  }
}

}  // namespace

RolloutLosses rollout_losses(const Rollout& rollout, const AgentConfig& config,
                             const NormStates& states, bool update) {
  const ReturnConfig& c = config.imag_loss;
  const Norms norms(config);
  Graph& graph = rollout.reward.graph();
  RolloutLosses out{.states = states};

  const auto of_values = norms.values.stats(graph, states.values);
  const auto in_units_of_reward = [&](const nn::TwoHot& value) {
    return value.mean() * of_values.scale + of_values.offset;
  };
  const Tensor value = in_units_of_reward(rollout.value);
  const Tensor slow_value = in_units_of_reward(rollout.slow_value);
  const Tensor target_value = c.slowtar ? slow_value : value;

  const double discount = config.contdisc ? 1.0 : config.discount();
  const Tensor weight =
      stop_gradient(nn::cumulative_product(discount * rollout.continuation) / discount);
  out.returns = nn::lambda_returns({.last = zeros_like(rollout.continuation),
                                    .terminal = 1.0 - rollout.continuation,
                                    .reward = rollout.reward,
                                    .value = target_value},
                                   discount, c.lam);
  if (update) {
    out.states.returns = norms.returns.updated(states.returns, out.returns);
    out.states.values = norms.values.updated(states.values, out.returns);
  }
  const auto of_returns = norms.returns.stats(graph, out.states.returns);
  const Tensor advantage = (out.returns - but_last(target_value)) / of_returns.scale;
  if (update) {
    out.states.advantages = norms.advantages.updated(states.advantages, advantage);
  }
  const Tensor normed_advantage =
      normed(advantage, norms.advantages.stats(graph, out.states.advantages));

  const PolicyTerms terms = policy_terms(rollout);
  out.policy = -but_last(weight) * (but_last(terms.log_prob) * stop_gradient(normed_advantage) +
                                    c.actent * but_last(terms.entropy));
  const Tensor target = normed(out.returns, norms.values.stats(graph, out.states.values));
  out.value = but_last(weight) * value_loss(rollout.value, rollout.slow_value, target, c);

  const Tensor returns = normed(out.returns, of_returns);
  out.metrics = {
      {"adv", mean(advantage)},
      {"adv_std", standard_deviation(advantage)},
      {"adv_mag", mean(abs(advantage))},
      {"rew", mean(rollout.reward)},
      {"con", mean(rollout.continuation)},
      {"ret", mean(returns)},
      {"val", mean(value)},
      {"tar", mean(target)},
      {"weight", mean(weight)},
      {"slowval", mean(slow_value)},
      {"ret_min", min(returns)},
      {"ret_max", max(returns)},
      {"ret_rate", mean(convert(compare(abs(returns), Comparison::GE, 1.0), returns.dtype()))}};
  add_entropy_metrics(out.metrics, rollout, terms);
  return out;
}

ReplayLosses replay_losses(const Replayed& replayed, const AgentConfig& config,
                           const std::vector<Tensor>& norm_state, bool update) {
  const ReturnConfig& c = config.repl_loss;
  const nn::RunningNorm norm(config.valnorm);
  ReplayLosses out{.norm_state = norm_state};
  out.returns = nn::lambda_returns({.last = replayed.last,
                                    .terminal = replayed.terminal,
                                    .reward = replayed.reward,
                                    .value = replayed.bootstrap},
                                   config.discount(), c.lam);
  if (update) {
    out.norm_state = norm.updated(norm_state, out.returns);
  }
  const Tensor target = normed(out.returns, norm.stats(out.returns.graph(), out.norm_state));
  out.value =
      (1.0 - but_last(replayed.last)) * value_loss(replayed.value, replayed.slow_value, target, c);
  return out;
}

}  // namespace kinema::dreamer
