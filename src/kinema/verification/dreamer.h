#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kinema/models/dreamer/agent.h"
#include "kinema/training/laprop.h"
#include "kinema/verification/case_graph.h"

namespace kinema::verification {

/// The agent of a case: its configuration and everything that its folder holds by name.
class DreamerModel {
 public:
  explicit DreamerModel(const std::filesystem::path& folder);

  const dreamer::AgentConfig& config() const { return config_; }
  const io::Json& json() const { return json_; }
  HostArray tensor(const std::string& name) const { return file_.at(name).copy(); }

  /// The agent with its parameters as inputs of the case's graph.
  dreamer::Agent agent(CaseGraph& graph, const nn::ModelOptions& options) const;
  /// The state of the running norms as inputs, or from tensors of these names.
  dreamer::NormStates norm_states(CaseGraph& graph) const;

 private:
  io::Json json_;
  io::SafetensorsFile file_;
  dreamer::AgentConfig config_;
};

/// Steps of a case, pred from bytes: `PREFIXis_first` and so on are stored as U8.
Tensor flag(Tensor bytes);

/// How a loss draws, from `PREFIXnoise.*` of a case; from `PREFIXindex.*` where those are inputs.
dreamer::LossDraws loss_draws(CaseGraph& graph, const std::string& prefix);

/// What a case's settings of the optimizer say.
struct DreamerOptimizer {
  training::LaPropOptions options;
  training::AnnealedRate rate;
};
DreamerOptimizer dreamer_optimizer(const io::Json& opt);

// Kinds of cases, by what their names end with.
std::vector<Row> dreamer_layer_rows(const Case& c, Session& session);
std::vector<Row> dreamer_distribution_rows(const Case& c, Session& session);
std::vector<Row> dreamer_return_rows(const Case& c, Session& session);
std::vector<Row> dreamer_norm_rows(const Case& c, Session& session);
std::vector<Row> dreamer_optimizer_rows(const Case& c, Session& session);
std::vector<Row> dreamer_encoder_rows(const Case& c, Session& session);
std::vector<Row> dreamer_decoder_rows(const Case& c, Session& session);
std::vector<Row> dreamer_rssm_rows(const Case& c, Session& session);
std::vector<Row> dreamer_head_rows(const Case& c, Session& session);
std::vector<Row> dreamer_loss_rows(const Case& c, Session& session);
std::vector<Row> dreamer_bf16_rows(const Case& c, Session& session);
std::vector<Row> dreamer_train_rows(const Case& c, Session& session);
std::vector<Row> dreamer_policy_rows(const Case& c, Session& session);
std::vector<Row> dreamer_replay_rows(const Case& c, Session& session);
std::vector<Row> dreamer_report_rows(const Case& c, Session& session);

}  // namespace kinema::verification
