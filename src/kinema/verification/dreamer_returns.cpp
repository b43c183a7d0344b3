#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/nn/returns.h"
#include "kinema/verification/dreamer.h"

namespace kinema::verification {
namespace {

Tensor as_f32(Tensor x) { return convert(x, DType::F32); }

/// The number after `word` in a dotted name, up to the end or the next letter.
double number_behind(const std::string& name, std::string_view word) {
  const size_t at = name.find(word);
  check(at != std::string::npos, "[verify] `{}` has no `{}`", name, word);
  return std::strtod(name.c_str() + at + word.size(), nullptr);
}

/// `lambda.disc0.997.lam0.95`; names round the discount to four digits, of which 0.997 stands for
/// 1 - 1 / 333.
void add_lambda_returns(CaseGraph& graph, const std::string& name) {
  double discount = number_behind(name, ".disc");
  for (const double exact : {1.0 - 1.0 / 333.0}) {
    discount = fmt::format("{:.4g}", exact) == fmt::format("{:.4g}", discount) ? exact : discount;
  }
  // Returns of the original take values from the bootstrap alone.
  graph.output(name, nn::lambda_returns({.last = as_f32(graph.input("lambda.last")),
                                         .terminal = graph.input("lambda.term"),
                                         .reward = graph.input("lambda.rew"),
                                         .value = graph.input("lambda.boot")},
                                        discount, number_behind(name, ".lam")));
}

/// The value of one of the case's settings.
dreamer::AgentConfig config_of(const io::Json& setting) {
  dreamer::AgentConfig c;
  c.horizon = setting.at("horizon").as_int();
  c.contdisc = setting.at("contdisc").as_bool();
  c.imag_loss = {.slowtar = setting.at("slowtar").as_bool(),
                 .lam = setting.at("lam").as_number(),
                 .actent = setting.at("actent").as_number(),
                 .slowreg = setting.at("slowreg").as_number()};
  c.repl_loss = c.imag_loss;
  const auto norm = [&](const char* key) {
    const auto kind = nn::RunningNorm::kind_from_string(setting.at(key).as_string());
    return nn::RunningNorm::Options{
        .kind = kind,
        .limit = kind == nn::RunningNorm::Kind::PERCENTILES ? 1.0 : 1e-8,
        .debias = false};
  };
  c.retnorm = norm("retnorm");
  c.valnorm = norm("valnorm");
  c.advnorm = norm("advnorm");
  return c;
}

/// The case's scalars from which a norm's state starts.
std::vector<Tensor> state_of(CaseGraph& graph, const nn::RunningNorm& norm) {
  std::vector<Tensor> state;
  for (const std::string& name : norm.state_names()) {
    state.push_back(graph.input("loss.retnorm." + name));
  }
  return state;
}

/// The tensors that losses are differentiated by, under the names of the case.
constexpr std::array<const char*, 7> kPredictions{
    "rew", "con", "pol_logits", "pol_mean", "pol_stddev", "val_logits", "slow_logits"};

void output_states(CaseGraph& graph, const std::string& prefix,
                   const std::vector<std::string>& names, const std::vector<Tensor>& state) {
  for (size_t i = 0; i < names.size(); ++i) {
    graph.output(prefix + names[i], state[i]);
  }
}

void add_rollout(CaseGraph& graph, const std::string& name, const dreamer::AgentConfig& config,
                 const dreamer::NormStates& states, bool update) {
  const auto given = [&](const std::string& tensor) { return graph.input("loss." + tensor); };
  constexpr double kLeast = 0.1;  // bounds of the case's policy
  constexpr double kMost = 1.0;
  const dreamer::Space action{.dtype = DType::S32, .classes = given("pol_logits").dim(-1)};
  const dreamer::Space move{.shape = {given("pol_mean").dim(-1)}};
  dreamer::ActionDistributions policy;
  policy.emplace("action",
                 dreamer::ActionDistribution(action, nn::Categorical(given("pol_logits"))));
  policy.emplace(
      "move", dreamer::ActionDistribution(
                  move, nn::Normal::bounded(given("pol_mean"), given("pol_stddev"), kLeast, kMost),
                  {.minstd = kLeast, .maxstd = kMost}));
  const dreamer::RolloutLosses losses = dreamer::rollout_losses(
      {.actions = {{"action", given("act.action")}, {"move", given("act.move")}},
       .reward = given("rew"),
       .continuation = given("con"),
       .policy = policy,
       .value = {given("val_logits"), given("bins")},
       .slow_value = {given("slow_logits"), given("bins")}},
      config, states, update);
  const std::string prefix = "imag." + name + ".";
  graph.output(prefix + "ret", losses.returns);
  graph.output(prefix + "loss.policy", losses.policy);
  graph.output(prefix + "loss.value", losses.value);
  for (const auto& [metric, value] : losses.metrics) {
    graph.output(prefix + "metric." + metric, value);
  }
  const auto names = dreamer::norm_state_names(config);
  output_states(graph, prefix + "state.", names.returns, losses.states.returns);
  output_states(graph, prefix + "state.", names.values, losses.states.values);
  output_states(graph, prefix + "state.", names.advantages, losses.states.advantages);
  std::vector<Tensor> wrt;
  for (const char* tensor : kPredictions) {
    wrt.push_back(given(tensor));
  }
  const std::vector<Tensor> grads = gradients(sum(losses.policy) + sum(losses.value), wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    graph.output(prefix + "grad." + kPredictions[i], grads[i]);
  }
}

void add_replay(CaseGraph& graph, const std::string& name, const dreamer::AgentConfig& config,
                const dreamer::NormStates& states, bool update) {
  const auto given = [&](const std::string& tensor) { return graph.input("loss." + tensor); };
  const dreamer::ReplayLosses losses =
      dreamer::replay_losses({.last = as_f32(given("rep.last")),
                              .terminal = as_f32(given("rep.term")),
                              .reward = given("rep.rew"),
                              .bootstrap = given("rep.boot"),
                              .value = {given("val_logits"), given("bins")},
                              .slow_value = {given("slow_logits"), given("bins")}},
                             config, states.values, update);
  const std::string prefix = "repl." + name + ".";
  graph.output(prefix + "ret", losses.returns);
  graph.output(prefix + "loss", losses.value);
  output_states(graph, prefix + "state.", dreamer::norm_state_names(config).values,
                losses.norm_state);
  const std::vector<Tensor> wrt{given("val_logits"), given("slow_logits")};
  const std::vector<Tensor> grads = gradients(sum(losses.value), wrt);
  graph.output(prefix + "grad.val_logits", grads[0]);
  graph.output(prefix + "grad.slow_logits", grads[1]);
}

nn::RunningNorm::Options norm_of(const io::Json& setting) {
  nn::RunningNorm::Options o{
      .kind = nn::RunningNorm::kind_from_string(setting.at("impl").as_string()),
      .rate = setting.at("rate").as_number(),
      .limit = setting.at("limit").as_number()};
  if (const io::Json* low = setting.find("perclo"); low != nullptr) {
    o.low = low->as_number();
    o.high = setting.at("perchi").as_number();
  }
  if (const io::Json* debias = setting.find("debias"); debias != nullptr) {
    o.debias = debias->as_bool();
  }
  return o;
}

/// `slow.rate0.3.every2.after1`: updates 0 .. 1.
void add_slow_update(CaseGraph& graph, const std::string& name) {
  dreamer::AgentConfig config;
  config.slow_rate = number_behind(name, ".rate");
  config.slow_every = static_cast<int64_t>(number_behind(name, ".every"));
  const auto last = static_cast<int64_t>(number_behind(name, ".after"));
  std::vector<Tensor> slow{graph.input("slow.start")};
  for (int64_t i = 0; i <= last; ++i) {
    slow = dreamer::slow_update(config, slow,
                                std::vector<Tensor>{graph.input("slow.source" + std::to_string(i))},
                                constant(graph.graph(), static_cast<double>(i), {DType::S32, {}}));
  }
  graph.output(name, slow[0]);
}

}  // namespace

void dreamer_return_cases(const Run& run) {
  CaseGraph graph(run);
  for (const std::string& name : run.c.names("lambda.disc")) {
    add_lambda_returns(graph, name);
  }
  for (const auto& [name, setting] : run.about("settings").members()) {
    const dreamer::AgentConfig config = config_of(setting);
    const dreamer::Norms norms(config);
    const dreamer::NormStates states{.returns = state_of(graph, norms.returns),
                                     .values = state_of(graph, norms.values),
                                     .advantages = state_of(graph, norms.advantages)};
    const bool update = setting.at("update").as_bool();
    add_rollout(graph, name, config, states, update);
    add_replay(graph, name, config, states, update);
  }
  run.add_expected(graph.run());
}

void dreamer_norm_cases(const Run& run) {
  CaseGraph graph(run);
  for (const auto& [name, setting] : run.about("settings").members()) {
    const nn::RunningNorm norm(norm_of(setting));
    const std::vector<std::string> names = norm.state_names();
    std::vector<Tensor> state(names.size(), constant(graph.graph(), 0.0, {DType::F32, {}}));
    for (int64_t i = 0; run.has("batch" + std::to_string(i)); ++i) {
      const std::string number = std::to_string(i);
      state = norm.updated(state, graph.input("batch" + number));
      const auto stats = norm.stats(graph.graph(), state);
      graph.output(name + ".offset" + number, stats.offset);
      graph.output(name + ".scale" + number, stats.scale);
      for (size_t k = 0; k < names.size(); ++k) {
        graph.output(name + ".state" + number + "." + names[k], state[k]);
      }
    }
  }
  for (const std::string& name : run.c.names("slow.rate")) {
    add_slow_update(graph, name);
  }
  run.add_expected(graph.run());
}

}  // namespace kinema::verification
