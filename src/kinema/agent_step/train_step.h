#pragma once

#include <span>
#include <vector>

#include "kinema/models/dreamer/agent.h"
#include "kinema/nn/model_options.h"
#include "kinema/optimizers/laprop.h"

/// What an agent computes in one step of training, whoever runs it.
namespace kinema::agent_step {

/// What training changes, as arrays, specs or tensors of a graph. Lists of parameters are in the
/// order of dreamer::parameters and dreamer::slow_parameters.
template <typename T>
struct AgentState {
  std::vector<T> params;
  std::vector<T> mu;
  std::vector<T> nu;
  std::vector<T> slow;   // the slow critic
  std::vector<T> norms;  // of returns, values and advantages, in the order of norm_specs
  T count{};             // S32 scalar: updates

  /// All elements, the count last.
  std::vector<T*> all() {
    std::vector<T*> out;
    for (std::vector<T>* part : {&params, &mu, &nu, &slow, &norms}) {
      for (T& x : *part) {
        out.push_back(&x);
      }
    }
    out.push_back(&count);
    return out;
  }
};

/// The running norms' state, F32 scalars with the original's names.
std::vector<nn::ParamSpec> norm_specs(const dreamer::AgentConfig& config);
/// The same list by norm, and back.
dreamer::NormStates by_norm(const dreamer::AgentConfig& config, std::span<const Tensor> norms);
std::vector<Tensor> as_list(const dreamer::NormStates& states);

/// Every array of the state, named as in the original's checkpoints: `enc/mlp0/kernel`,
/// `opt/state/2/1/enc/mlp0/kernel` (mu), `opt/state/1/1/...` (nu), `slowval/...`,
/// `retnorm/lo/value`, `opt/step/value`.
AgentState<nn::ParamSpec> state_specs(const dreamer::AgentConfig& config);

/// How a step goes, besides the agent's configuration.
struct StepOptions {
  nn::ModelOptions model;
  optimizers::LaPropOptions optimizer;
  /// Over a mesh (`model.place`): the sharding of each parameter and its moments, in the order of
  /// dreamer::parameters.
  std::vector<Sharding> params = {};
};

struct StepResult {
  AgentState<Tensor> state;
  dreamer::LossOutputs loss;
  /// The losses' metrics, and `opt/...` about the update: F32 scalars.
  dreamer::TensorMap metrics;
};

/// One step: the losses of a batch, LaProp on all parameters at once, and the slow critic's update.
/// `learning_rate` is an F32 scalar.
StepResult train_step(const dreamer::AgentConfig& config, const StepOptions& options,
                      const AgentState<Tensor>& before, const dreamer::Batch& batch,
                      const dreamer::LossDraws& draws, Tensor learning_rate,
                      const dreamer::Agent::Tap& tap = {});

}  // namespace kinema::agent_step
