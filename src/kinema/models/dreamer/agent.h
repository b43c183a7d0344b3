#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kinema/models/dreamer/actor_critic.h"
#include "kinema/models/dreamer/decoder.h"
#include "kinema/models/dreamer/encoder.h"
#include "kinema/models/dreamer/rssm.h"

/// DreamerV3 (arXiv:2301.04104): an agent that learns a world model from replayed experience, and
/// to act by rollouts within it. Names of parameters are the original's, with `/` between parts.
namespace kinema::dreamer {

/// Every trained parameter, F32. Throws what `validate` throws.
std::vector<nn::ParamSpec> parameters(const AgentConfig& config);
/// Those of the slow critic, `slowval/...` for each `val/...`, in the same order.
std::vector<nn::ParamSpec> slow_parameters(const AgentConfig& config);

/// The slow critic's parameters after an update of the critic: a part `rate` of the critic's, every
/// so many updates. `count` (S32 scalar): updates before this one.
std::vector<Tensor> slow_update(const AgentConfig& config, std::span<const Tensor> slow,
                                std::span<const Tensor> value, Tensor count);

/// Names of the running norms' state, `retnorm/lo/value` and so on, in the order of NormStates.
PerNorm<std::vector<std::string>> norm_state_names(const AgentConfig& config);

/// The networks.
struct Networks {
  Networks(const nn::Params& root, const AgentConfig& config);

  Encoder encoder;
  Rssm rssm;
  Decoder decoder;
  TwoHotHead reward;
  BinaryHead continuation;
  PolicyHead policy;
  TwoHotHead value;
};

/// The replayed steps that a loss is computed of: [b, t, ...].
struct Batch {
  TensorMap observations;
  TensorMap previous_actions;  // each the one that led to its observation
  Tensor reward;               // F32
  Tensor is_first;             // pred
  Tensor is_last;
  Tensor is_terminal;
  RssmState state;  // before the first step
};

/// From replayed steps [b, context + t, ...] by name: observations, actions, reward, is_first,
/// is_last, is_terminal, the latents `dyn/deter` and `dyn/stoch`, and consec. Where a row's consec
/// is 0, the state before the first step is the last context step's latents; else it is `carried`,
/// the state after the batch before.
Batch batch_of(const AgentConfig& config, const TensorMap& steps, const RssmState& carried,
               int64_t context = 1);

/// How a loss draws: posterior [b, t], prior [b k, h], actions [b k, h + 1] (k states of a row
/// begin rollouts).
struct LossDraws {
  Draws posterior;
  Draws prior;
  ActionDraws actions;
};

struct LossOutputs {
  Tensor total;           // scalar: the sum of all losses' means, each times its scale
  TensorMap losses;       // F32 [b, t] or [b, k], of each observation, rew, con, dyn, rep, policy,
                          // value; repval [b, k - 1]
  TensorMap metrics;      // F32 scalars
  Tensor tokens;          // [b, t, tokens]
  RssmFeatures features;  // [b, t, ...]
  NormStates states;      // of the running norms, after this batch
};

/// An agent's parameters with their tensors in a graph.
class Agent {
 public:
  /// Tensors of `parameters` and `slow_parameters`, in their order. The options' activations_dtype
  /// and precision count.
  Agent(const AgentConfig& config, const nn::ModelOptions& options, std::span<const Tensor> params,
        std::span<const Tensor> slow_params);

  /// Called with intermediate values of a loss: `imag.ret`, `imag.feat.deter`, ...
  using Tap = std::function<void(const std::string& name, Tensor value)>;

  /// All losses of world model, actor and critic.
  LossOutputs loss(const Batch& batch, const LossDraws& draws, const NormStates& states,
                   const Tap& tap = {}) const;

  /// What an agent remembers between two steps: rows of environments.
  struct Memory {
    RssmState state;
    TensorMap actions;  // [n, ...], the last ones
  };
  struct Act {
    Memory memory;  // after this step, with its actions
    Tensor index;   // [n, stoch] s32: the classes of the state
  };
  /// Actions for observations [n, ...] by name. `reset` [n] pred: where an episode begins.
  Act act(const Memory& before, const TensorMap& observations, Tensor reset, const Draws& draws,
          const ActionDraws& action_draws) const;

  const AgentConfig& config() const { return config_; }
  const nn::ModelOptions& options() const { return options_; }
  const Networks& networks() const { return *networks_; }
  const TwoHotHead& slow_value() const { return *slow_value_; }

  /// Tokens of observations [b, t, ...] by name: [b, t, tokens].
  Tensor tokens(const TensorMap& observations) const;
  /// Actions [b, t, ...] as vectors, [b, t, a] in activations_dtype.
  Tensor action_vectors(const TensorMap& actions) const;

 private:
  void world_model_losses(LossOutputs& out, const Batch& batch) const;
  RssmFeatures rollout_features(const RssmFeatures& first, const Rssm::Imagined& imagined) const;
  Tensor actor_critic_losses(LossOutputs& out, const Batch& batch, const LossDraws& draws,
                             const NormStates& states, const Tap& tap) const;
  void replay_value_loss(LossOutputs& out, const Batch& batch, Tensor bootstrap,
                         const Tap& tap) const;

  AgentConfig config_;
  nn::ModelOptions options_;
  std::unique_ptr<nn::Binder> binder_;
  std::unique_ptr<Networks> networks_;
  std::unique_ptr<TwoHotHead> slow_value_;
};

}  // namespace kinema::dreamer
