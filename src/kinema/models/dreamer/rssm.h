#pragma once

#include <functional>
#include <span>
#include <vector>

#include "kinema/models/dreamer/vectors.h"
#include "kinema/nn/distributions.h"
#include "kinema/nn/mlp.h"
#include "kinema/nn/model_options.h"

namespace kinema::dreamer {

/// The state between two steps, in activations_dtype; zeros where an episode begins.
struct RssmState {
  Tensor deter;  // [n, deter]
  Tensor stoch;  // [n, stoch, classes], one-hot rows
};

/// States of a sequence.
struct RssmFeatures {
  Tensor deter;  // [n, t, deter]
  Tensor stoch;  // [n, t, stoch, classes]
  Tensor logit;  // [n, t, stoch, classes], before unimix
  Tensor index;  // [n, t, stoch] s32, which class was drawn

  /// The input of heads: deter, then stoch as one vector, [n, t, deter + stoch * classes].
  Tensor vector() const;
  /// The states of the last `count` times.
  RssmFeatures last(int64_t count) const;
};

/// How samples are drawn: by Gumbel noise [n, t, stoch, classes], or the classes themselves
/// [n, t, stoch] s32 where they are given.
struct Draws {
  Tensor noise = {};
  Tensor index = {};
};

/// Actions [n, ...] by name in a state, from slices [n, ...] of what was given for this step.
using Policy = std::function<TensorMap(const RssmState& state, std::span<const Tensor> given)>;

/// The recurrent state-space model (arXiv:1811.04551, arXiv:2301.04104): a GRU of blocks over a
/// stochastic state of categorical variables, with a posterior that sees tokens of an observation
/// and a prior that does not.
///
///   deter' = core(deter, stoch, action)
///   stoch' ~ posterior(deter', tokens)   or   ~ prior(deter')
class Rssm {
 public:
  /// `tokens`: of an observation.
  Rssm(const nn::Params& params, const AgentConfig& config, int64_t tokens);

  /// Zeros for n rows.
  RssmState initial(Graph& graph, int64_t n, const nn::ModelOptions& options) const;

  /// Posterior states along time, as one loop. `tokens` [n, t, e]; `actions` [n, t, a] as vectors,
  /// each the one that led to its observation; `reset` [n, t] pred: where an episode begins, before
  /// which state and action are zero. What does not depend on the state is computed before the
  /// loop.
  RssmFeatures observe(const RssmState& state, Tensor tokens, Tensor actions, Tensor reset,
                       const Draws& draws, const nn::ModelOptions& options) const;

  struct Imagined {
    RssmFeatures features;
    TensorMap actions;  // [n, length, ...], each taken before its features
  };
  /// Prior states of `length` steps after a state, with a policy's actions. `given` [n, length,
  /// ...] are sliced for the policy.
  Imagined imagine(const RssmState& state, int64_t length, const Policy& policy,
                   std::vector<Tensor> given, const Draws& draws,
                   const nn::ModelOptions& options) const;

  /// deter [..., deter] -> logits [..., stoch, classes].
  Tensor prior(Tensor deter, const nn::ModelOptions& options) const;
  /// One step of the core: deter' [n, deter].
  Tensor core(const RssmState& state, Tensor action, const nn::ModelOptions& options) const;

  /// The distribution of a state by logits.
  nn::Categorical distribution(Tensor logit) const {
    return nn::Categorical(logit, config_.unimix);
  }

  struct Losses {
    Tensor dyn;            // [n, t]: the prior moves to the posterior
    Tensor rep;            // [n, t]: the posterior moves to the prior
    Tensor kl;             // [n, t, stoch], of posterior and prior
    Tensor prior_entropy;  // [n, t], summed over the variables
    Tensor post_entropy;
  };
  /// KL divergences, at least free_nats each.
  Losses losses(const RssmFeatures& features, const nn::ModelOptions& options) const;

 private:
  /// A linear layer of blocks with norm and activation.
  struct BlockLayer {
    nn::BlockDense dense;
    nn::ScaleNorm norm;
  };
  /// Parts of kernels, which loops use at every step.
  struct CoreRows {
    Tensor deter;   // of the first layer of blocks: [blocks, deter / blocks, deter / blocks]
    Tensor states;  // of embedded deter and stoch: [2 hidden, deter]
    Tensor action;  // of the embedded action: [hidden, deter]
  };
  CoreRows core_rows() const;
  Tensor action_part(const CoreRows& rows, Tensor action, const nn::ModelOptions& options) const;
  Tensor next_deter(const CoreRows& rows, const RssmState& state, Tensor action_part,
                    const nn::ModelOptions& options) const;
  Tensor as_variables(Tensor logits) const;
  /// Class and one-hot row for logits [n, stoch, classes].
  struct Sample {
    Tensor index;
    Tensor stoch;
  };
  Sample sample(Tensor logit, std::span<const Tensor> draw, bool is_index, DType dtype) const;

  RssmConfig config_;
  Spaces action_spaces_;
  int64_t actions_;
  int64_t tokens_;
  nn::DenseBlock from_deter_;
  nn::DenseBlock from_stoch_;
  nn::DenseBlock from_action_;
  std::vector<BlockLayer> hidden_;
  nn::BlockDense gru_;
  std::vector<nn::DenseBlock> posterior_;
  nn::Dense posterior_logit_;
  std::vector<nn::DenseBlock> prior_;
  nn::Dense prior_logit_;
};

}  // namespace kinema::dreamer
