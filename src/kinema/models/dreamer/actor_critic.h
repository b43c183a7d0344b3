#pragma once

#include <vector>

#include "kinema/models/dreamer/heads.h"
#include "kinema/nn/running_norm.h"

namespace kinema::dreamer {

/// One value for each running norm of actor and critic: their state, for example.
template <typename T>
struct PerNorm {
  T returns;
  T values;
  T advantages;
};
using NormStates = PerNorm<std::vector<Tensor>>;

/// The running norms by their options.
struct Norms {
  explicit Norms(const AgentConfig& config)
      : returns(config.retnorm), values(config.valnorm), advantages(config.advnorm) {}

  nn::RunningNorm returns;
  nn::RunningNorm values;
  nn::RunningNorm advantages;
};

/// Rollouts from n states, with the predictions of actor and critic for each step, [n, h + 1].
struct Rollout {
  TensorMap actions;  // taken in each state: [n, h + 1, ...]
  Tensor reward;
  Tensor continuation;  // the probability that the episode continues
  ActionDistributions policy;
  nn::TwoHot value;
  nn::TwoHot slow_value;
};

struct RolloutLosses {
  Tensor policy;   // [n, h]
  Tensor value;    // [n, h]
  Tensor returns;  // [n, h]
  TensorMap metrics;
  NormStates states;  // after this batch
};

/// Losses of actor (REINFORCE with entropy) and critic on imagined rollouts. States are weighted by
/// the probability that the rollout reaches them. `update` false leaves the norms as they are.
RolloutLosses rollout_losses(const Rollout& rollout, const AgentConfig& config,
                             const NormStates& states, bool update = true);

/// Rewards and values of replayed states, [n, t].
struct Replayed {
  Tensor last;      // 1 where a state is the last of its episode
  Tensor terminal;  // 1 where the episode terminated
  Tensor reward;
  Tensor bootstrap;  // returns of rollouts that start in the states
  nn::TwoHot value;
  nn::TwoHot slow_value;
};

struct ReplayLosses {
  Tensor value;                    // [n, t - 1]
  Tensor returns;                  // [n, t - 1]
  std::vector<Tensor> norm_state;  // of values, after this batch
};

/// The critic's loss on replayed states.
ReplayLosses replay_losses(const Replayed& replayed, const AgentConfig& config,
                           const std::vector<Tensor>& norm_state, bool update = true);

}  // namespace kinema::dreamer
