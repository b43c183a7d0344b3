#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kinema/io/safetensors.h"
#include "kinema/models/dreamer/agent.h"
#include "kinema/optimizers/laprop.h"
#include "kinema/verification/kinds.h"

/// Cases of DreamerV3 agents.
namespace kinema::verification {

/// An agent's folder: its configuration, and its tensors by name.
class DreamerModel {
 public:
  explicit DreamerModel(const std::filesystem::path& folder);

  const dreamer::AgentConfig& config() const { return config_; }
  HostArray tensor(const std::string& name) const { return file_.at(name).copy(); }

 private:
  io::SafetensorsFile file_;
  dreamer::AgentConfig config_;
};

/// A program with the case's agent. Inputs are its parameters `param.NAME`, and `other.NAME` for
/// the slow critic and the state of the running norms.
class AgentGraph : public CaseGraph {
 public:
  explicit AgentGraph(const Run& run, DType activations = DType::F32);

  const dreamer::AgentConfig& config() const { return model.config(); }
  /// The agent's tensors as inputs PREFIXname.
  std::vector<Tensor> inputs_of(const std::string& prefix, const std::vector<std::string>& names);
  dreamer::NormStates norm_states();
  /// Adds outputs PREFIXname for the state of the running norms.
  void output_states(const std::string& prefix, const dreamer::NormStates& states);
  /// The inputs `PREFIX.deter` and `PREFIX.stoch`.
  dreamer::RssmState state(const std::string& prefix);

  DreamerModel model;
  std::vector<nn::ParamSpec> specs;
  std::vector<nn::ParamSpec> slow_specs;
  std::vector<Tensor> params;
  std::vector<Tensor> slow;
  dreamer::Agent agent;
};

/// `is_first` and the like as pred; cases have them as U8.
Tensor flag(Tensor bytes);

/// The draws of a loss: the case's `noise.NAME`, or `index.NAME` if those are inputs.
dreamer::LossDraws loss_draws(CaseGraph& graph);

/// The optimizer in a case's JSON.
struct DreamerOptimizer {
  optimizers::LaPropOptions options;
  optimizers::AnnealedRate rate;
};
DreamerOptimizer dreamer_optimizer(const io::Json& opt);

// The cases in `dreamer_kinds`.
void dreamer_layer_cases(const Run& run);
void dreamer_distribution_cases(const Run& run);
void dreamer_return_cases(const Run& run);
void dreamer_norm_cases(const Run& run);
void dreamer_optimizer_cases(const Run& run);
void dreamer_encoder_cases(const Run& run);
void dreamer_decoder_cases(const Run& run);
void dreamer_rssm_cases(const Run& run);
void dreamer_head_cases(const Run& run);
void dreamer_loss_cases(const Run& run);
void dreamer_bf16_cases(const Run& run);
void dreamer_train_cases(const Run& run);
void dreamer_policy_cases(const Run& run);
void dreamer_replay_cases(const Run& run);
void dreamer_report_cases(const Run& run);

}  // namespace kinema::verification
