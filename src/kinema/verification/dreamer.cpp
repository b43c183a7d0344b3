#include "kinema/verification/dreamer.h"

#include "kinema/models/dreamer/config_file.h"

namespace kinema::verification {
namespace {

std::vector<std::string> names_of(const std::vector<nn::ParamSpec>& specs) {
  std::vector<std::string> out;
  for (const nn::ParamSpec& spec : specs) {
    out.push_back(spec.name);
  }
  return out;
}

nn::ModelOptions with_activations(nn::ModelOptions options, DType dtype) {
  options.activations_dtype = dtype;
  return options;
}

}  // namespace

DreamerModel::DreamerModel(const std::filesystem::path& folder)
    : file_(io::SafetensorsFile::open(folder / "params.safetensors")),
      config_(dreamer::parse_config(io::Json::read(folder / "agent.json"))) {}

AgentGraph::AgentGraph(const Run& run, DType activations)
    : CaseGraph(run),
      model(run.c.model()),
      specs(dreamer::parameters(config())),
      slow_specs(dreamer::slow_parameters(config())),
      params(inputs_of("param.", names_of(specs))),
      slow(inputs_of("other.", names_of(slow_specs))),
      agent(config(), with_activations(run.options, activations), params, slow) {
  // The reference rounds the result of every operation; the compiler would keep those in f32 that
  // only operations of the same loop use.
  program.compile.flags["xla_allow_excess_precision"] = false;
}

std::vector<Tensor> AgentGraph::inputs_of(const std::string& prefix,
                                          const std::vector<std::string>& names) {
  std::vector<Tensor> out;
  for (const std::string& name : names) {
    out.push_back(input(model.tensor(name), prefix + name));
  }
  return out;
}

dreamer::NormStates AgentGraph::norm_states() {
  const auto names = dreamer::norm_state_names(config());
  return {.returns = inputs_of("other.", names.returns),
          .values = inputs_of("other.", names.values),
          .advantages = inputs_of("other.", names.advantages)};
}

void AgentGraph::output_states(const std::string& prefix, const dreamer::NormStates& states) {
  const auto names = dreamer::norm_state_names(config());
  for (const auto& [scalars, values] : {std::pair{names.returns, states.returns},
                                        {names.values, states.values},
                                        {names.advantages, states.advantages}}) {
    for (size_t i = 0; i < scalars.size(); ++i) {
      output(prefix + scalars[i], values[i]);
    }
  }
}

dreamer::RssmState AgentGraph::state(const std::string& prefix) {
  return {.deter = input(prefix + ".deter"), .stoch = input(prefix + ".stoch")};
}

Tensor flag(Tensor bytes) { return compare(bytes, Comparison::NE, 0.0); }

dreamer::LossDraws loss_draws(CaseGraph& graph) {
  const dreamer::TensorMap given = graph.inputs("index.");
  const auto draws = [&](const std::string& name) {
    return dreamer::Draws{.noise = graph.input("noise." + name),
                          .index = given.contains(name) ? given.at(name) : Tensor()};
  };
  dreamer::LossDraws out{.posterior = draws("post"), .prior = draws("prior")};
  out.actions.noise = graph.inputs("noise.act.");
  out.actions.actions = graph.inputs("index.act.");
  return out;
}

std::vector<Kind> dreamer_kinds() {
  // Kernels' initial deviations come from f32, as does 1.1368^2.
  const LimitTable fans{{"fan_in *", {.relative = 1e-6}}};
  // Numbers of the host are computed in f64 as the reference does, but in another order;
  // probabilities sum 40 terms. Everything else of the replay is whole.
  const LimitTable replay{
      {"priority.*", {.relative = 1e-12}}, {"recency.*", {.relative = 1e-9}}, {"*", kExact}};
  return {
      {"dreamer_nets", dreamer_layer_cases, Kind::Forms::ONE, fans},
      {"dreamer_dists", dreamer_distribution_cases},
      {"dreamer_returns", dreamer_return_cases},
      {"dreamer_norms", dreamer_norm_cases},
      {"dreamer_optim", dreamer_optimizer_cases},
      {"dreamer_replay", dreamer_replay_cases, Kind::Forms::ONE, replay},
      {"dreamer_*_encoder", dreamer_encoder_cases},
      {"dreamer_*_decoder", dreamer_decoder_cases},
      {"dreamer_*_rssm", dreamer_rssm_cases},
      {"dreamer_*_heads", dreamer_head_cases},
      {"dreamer_*_loss", dreamer_loss_cases},
      {"dreamer_*_bf16", dreamer_bf16_cases},
      {"dreamer_*_train", dreamer_train_cases},
      {"dreamer_*_policy", dreamer_policy_cases},
      {"dreamer_*_report", dreamer_report_cases},
  };
}

}  // namespace kinema::verification
