#include "kinema/verification/dreamer.h"

#include <array>
#include <utility>

#include "kinema/models/dreamer/config_file.h"

namespace kinema::verification {

DreamerModel::DreamerModel(const std::filesystem::path& folder)
    : json_(io::Json::read(folder / "agent.json")),
      file_(io::SafetensorsFile::open(folder / "params.safetensors")),
      config_(dreamer::parse_config(json_)) {}

dreamer::Agent DreamerModel::agent(CaseGraph& graph, const nn::ModelOptions& options) const {
  const auto by_name = [&](const std::string& name) { return tensor(name); };
  const std::vector<Tensor> params = graph.parameters(dreamer::parameters(config_), by_name);
  const std::vector<Tensor> slow = graph.parameters(dreamer::slow_parameters(config_), by_name);
  return {config_, options, params, slow};
}

dreamer::NormStates DreamerModel::norm_states(CaseGraph& graph) const {
  const auto inputs = [&](const std::vector<std::string>& names) {
    std::vector<Tensor> out;
    for (const std::string& name : names) {
      out.push_back(graph.input("state " + name, tensor(name)));
    }
    return out;
  };
  const auto names = dreamer::norm_state_names(config_);
  return {.returns = inputs(names.returns),
          .values = inputs(names.values),
          .advantages = inputs(names.advantages)};
}

Tensor flag(Tensor bytes) { return compare(bytes, Comparison::NE, 0.0); }

dreamer::LossDraws loss_draws(CaseGraph& graph, const std::string& prefix) {
  const auto draws = [&](const std::string& name) {
    const std::string index = prefix + "index." + name;
    const bool is_given = graph.the_case().has(index) && !graph.expects(index);
    return dreamer::Draws{.noise = graph.input(prefix + "noise." + name),
                          .index = is_given ? graph.input(index) : Tensor()};
  };
  dreamer::LossDraws out{.posterior = draws("post"), .prior = draws("prior")};
  out.actions.noise = graph.inputs(prefix + "noise.act.");
  for (const std::string& name : graph.the_case().names(prefix + "index.act.")) {
    if (!graph.expects(name)) {
      out.actions.actions[name.substr((prefix + "index.act.").size())] = graph.input(name);
    }
  }
  return out;
}

std::vector<Row> dreamer_rows(const Case& c, Session& session) {
  using Rows = std::vector<Row> (*)(const Case&, Session&);
  static constexpr std::array<std::pair<const char*, Rows>, 15> kKinds{
      {{"_nets", dreamer_layer_rows},
       {"_dists", dreamer_distribution_rows},
       {"_returns", dreamer_return_rows},
       {"_norms", dreamer_norm_rows},
       {"_optim", dreamer_optimizer_rows},
       {"_encoder", dreamer_encoder_rows},
       {"_decoder", dreamer_decoder_rows},
       {"_rssm", dreamer_rssm_rows},
       {"_heads", dreamer_head_rows},
       {"_loss", dreamer_loss_rows},
       {"_bf16", dreamer_bf16_rows},
       {"_train", dreamer_train_rows},
       {"_policy", dreamer_policy_rows},
       {"_replay", dreamer_replay_rows},
       {"_report", dreamer_report_rows}}};
  for (const auto& [end, rows] : kKinds) {
    if (c.name().ends_with(end)) {
      return rows(c, session);
    }
  }
  return {unsupported(c.name())};
}

}  // namespace kinema::verification
