#include "kinema/core/error.h"
#include "kinema/models/dreamer/agent.h"
#include "kinema/nn/linear.h"

namespace kinema::dreamer {
namespace {

Tensor as_f32(Tensor x) { return convert(x, DType::F32); }

/// x, without its gradient unless `gradient` is set.
Tensor passed(Tensor x, bool gradient) { return gradient ? x : stop_gradient(x); }

/// The first `count` entries of x [n, h, ...] along the second axis.
Tensor leading(Tensor x, int64_t count) { return slice(x, Axis(1), 0, count); }

/// Noise or actions [n, steps + 1, ...]: those of the rollout's steps, and those of the last step.
TensorMap without_last(const TensorMap& x, int64_t steps) {
  TensorMap out;
  for (const auto& [name, value] : x) {
    out[name] = leading(value, steps);
  }
  return out;
}
TensorMap last_alone(const TensorMap& x, int64_t steps) {
  TensorMap out;
  for (const auto& [name, value] : x) {
    out[name] = squeeze(slice(value, Axis(1), steps, 1), Axis(1));
  }
  return out;
}

/// Calls `tap` with the parameters and values of a policy's distributions.
void offer_policy(const Agent::Tap& tap, const ActionDistributions& policy,
                  const TensorMap& actions) {
  for (const auto& [name, distribution] : policy) {
    const std::string prefix = "imag.pol." + name + ".";
    if (distribution.normal()) {
      tap(prefix + "mean", distribution.normal()->mean());
      tap(prefix + "stddev", distribution.normal()->stddev());
    } else {
      tap(prefix + "logits", distribution.categorical()->scores());
    }
    tap(prefix + "logp", distribution.log_prob(value_of(actions, name)));
    tap(prefix + "entropy", distribution.entropy());
    tap("imag.act." + name, value_of(actions, name));
  }
}

}  // namespace

void Agent::world_model_losses(LossOutputs& out, const Batch& batch) const {
  const int64_t b = batch.reward.dim(0);
  const auto flat = [](Tensor x) { return merge_leading_axes(x); };
  const RssmState states{.deter = flat(out.features.deter), .stoch = flat(out.features.stoch)};
  const TensorMap reconstructed = networks_->decoder(states, options_);
  for (const auto& [name, loss] :
       networks_->decoder.losses(reconstructed, merge_leading_axes(batch.observations))) {
    out.losses[name] = split_leading_axis(loss, b);
  }
  const Tensor vector = out.features.vector();
  out.losses["rew"] =
      networks_->reward(passed(vector, config_.reward_grad), options_).loss(batch.reward);
  const Tensor continues = 1.0 - as_f32(batch.is_terminal);
  out.losses["con"] = networks_->continuation(vector, options_)
                          .loss(config_.contdisc ? continues * config_.discount() : continues);
  const Rssm::Losses kl = networks_->rssm.losses(out.features, options_);
  out.losses["dyn"] = kl.dyn;
  out.losses["rep"] = kl.rep;
  out.metrics["dyn_ent"] = mean(kl.prior_entropy);
  out.metrics["rep_ent"] = mean(kl.post_entropy);
}

RssmFeatures Agent::rollout_features(const RssmFeatures& first,
                                     const Rssm::Imagined& imagined) const {
  const auto joined = [&](Tensor start, Tensor later) {
    return concatenate({passed(expand_dims(merge_leading_axes(start), Axis(1)), config_.ac_grads),
                        stop_gradient(later)},
                       Axis(1));
  };
  return {.deter = joined(first.deter, imagined.features.deter),
          .stoch = joined(first.stoch, imagined.features.stoch)};
}

Tensor Agent::actor_critic_losses(LossOutputs& out, const Batch& batch, const LossDraws& draws,
                                  const NormStates& states, const Tap& tap) const {
  const int64_t b = batch.reward.dim(0);
  const int64_t length = config_.imag_length;
  const int64_t starts = out.losses.at("dyn").dim(1);
  const int64_t k = config_.imag_last > 0 ? std::min(config_.imag_last, starts) : starts;
  const RssmFeatures first = out.features.last(k);
  const RssmState start{.deter = stop_gradient(merge_leading_axes(first.deter)),
                        .stoch = stop_gradient(merge_leading_axes(first.stoch))};
  const auto drawn = [&](const TensorMap& noise, const TensorMap& actions) {
    return [&, noise, actions](Tensor vector) {
      return sample(networks_->policy(vector, options_), {.noise = noise, .actions = actions});
    };
  };
  // Slices of noise and of given actions are passed to the policy in the order of their names.
  const TensorMap noise = without_last(draws.actions.noise, length);
  const TensorMap given = without_last(draws.actions.actions, length);
  std::vector<Tensor> slices;
  for (const TensorMap* map : {&noise, &given}) {
    for (const auto& [name, value] : *map) {
      slices.push_back(value);
    }
  }
  const Policy policy = [&](const RssmState& state, std::span<const Tensor> now) {
    size_t next = 0;
    TensorMap noise_now;
    TensorMap given_now;
    for (const auto& [name, value] : noise) {
      noise_now[name] = now[next++];
    }
    for (const auto& [name, value] : given) {
      given_now[name] = now[next++];
    }
    const RssmFeatures here{.deter = state.deter, .stoch = state.stoch};
    return drawn(noise_now, given_now)(here.vector());
  };
  const Rssm::Imagined imagined =
      networks_->rssm.imagine(start, length, policy, slices, draws.prior, options_);
  const RssmFeatures features = rollout_features(first, imagined);
  const Tensor vector = features.vector();
  TensorMap actions =
      drawn(last_alone(draws.actions.noise, length), last_alone(draws.actions.actions, length))(
          squeeze(slice(vector, Axis(1), length, 1), Axis(1)));
  for (auto& [name, action] : actions) {
    action = concatenate({imagined.actions.at(name), expand_dims(action, Axis(1))}, Axis(1));
  }
  const Rollout rollout{.actions = actions,
                        .reward = networks_->reward(vector, options_).mean(),
                        .continuation = networks_->continuation(vector, options_).probability(),
                        .policy = networks_->policy(vector, options_),
                        .value = networks_->value(vector, options_),
                        .slow_value = (*slow_value_)(vector, options_)};
  const RolloutLosses losses = rollout_losses(rollout, config_, states);
  for (const auto& [name, loss] : {std::pair{"policy", losses.policy}, {"value", losses.value}}) {
    out.losses[name] = reshape(mean(loss, {1}), {b, k});
  }
  out.metrics.insert(losses.metrics.begin(), losses.metrics.end());
  out.states = losses.states;
  if (tap) {
    tap("imag.start.deter", start.deter);
    tap("imag.start.stoch", start.stoch);
    tap("imag.feat.deter", imagined.features.deter);
    tap("imag.feat.stoch", imagined.features.stoch);
    tap("imag.feat.logit", imagined.features.logit);
    tap("index.prior", imagined.features.index);
    tap("imag.rew", rollout.reward);
    tap("imag.con", rollout.continuation);
    tap("imag.val", rollout.value.mean());
    tap("imag.slowval", rollout.slow_value.mean());
    offer_policy(tap, rollout.policy, actions);
    tap("imag.ret", losses.returns);
    tap("imag.loss.policy", losses.policy);
    tap("imag.loss.value", losses.value);
  }
  return reshape(leading(losses.returns, 1), {b, k});
}

void Agent::replay_value_loss(LossOutputs& out, const Batch& batch, Tensor bootstrap,
                              const Tap& tap) const {
  const int64_t k = bootstrap.dim(1);
  const auto tail = [&](Tensor x) { return slice(x, Axis(1), x.dim(1) - k, k); };
  const Tensor vector = passed(out.features.last(k).vector(), config_.repval_grad);
  const ReplayLosses losses = replay_losses({.last = as_f32(tail(batch.is_last)),
                                             .terminal = as_f32(tail(batch.is_terminal)),
                                             .reward = tail(batch.reward),
                                             .bootstrap = bootstrap,
                                             .value = networks_->value(vector, options_),
                                             .slow_value = (*slow_value_)(vector, options_)},
                                            config_, out.states.values);
  out.losses["repval"] = losses.value;
  out.states.values = losses.norm_state;
  if (tap) {
    tap("replay.ret", losses.returns);
  }
}

LossOutputs Agent::loss(const Batch& batch, const LossDraws& draws, const NormStates& states,
                        const Tap& tap) const {
  check(slow_value_ != nullptr, "[dreamer] a loss needs the slow critic's parameters");
  LossOutputs out;
  out.tokens = tokens(batch.observations);
  out.features =
      networks_->rssm.observe(batch.state, out.tokens, action_vectors(batch.previous_actions),
                              batch.is_first, draws.posterior, options_);
  world_model_losses(out, batch);
  const Tensor bootstrap = actor_critic_losses(out, batch, draws, states, tap);
  if (config_.repval_loss) {
    replay_value_loss(out, batch, bootstrap, tap);
  }
  for (const auto& [name, loss] : out.losses) {
    const Tensor mean_loss = mean(loss);
    out.metrics["loss/" + name] = mean_loss;
    const Tensor scaled = mean_loss * config_.loss_scale(name);
    out.total = out.total ? out.total + scaled : scaled;
  }
  return out;
}

}  // namespace kinema::dreamer
