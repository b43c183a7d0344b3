#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/optimizers/laprop.h"
#include "kinema/verification/dreamer.h"

namespace kinema::verification {

DreamerOptimizer dreamer_optimizer(const io::Json& opt) {
  DreamerOptimizer out;
  out.options.b1 = opt.at("beta1").as_number();
  out.options.b2 = opt.at("beta2").as_number();
  out.options.eps = opt.at("eps").as_number();
  out.options.agc = opt.at("agc").as_number();
  out.options.weight_decay = opt.at("wd").as_number();
  if (const io::Json* nesterov = opt.find("nesterov"); nesterov != nullptr) {
    out.options.nesterov = nesterov->as_bool();
  }
  // The only pattern there is: `/kernel$`.
  if (const io::Json* pattern = opt.find("wdregex"); pattern != nullptr) {
    check(pattern->as_string() == "/kernel$", "[verify] {} is `{}` but must be `/kernel$`",
          pattern->where(), pattern->as_string());
  }
  out.options.decays = [](const nn::ParamSpec& spec) { return spec.name.ends_with("/kernel"); };
  out.rate.learning_rate = opt.at("lr").as_number();
  out.rate.warmup = opt.at("warmup").as_int();
  out.rate.anneal = opt.at("anneal").as_int();
  const std::string& kind = opt.at("schedule").as_string();
  using Kind = optimizers::AnnealedRate::Kind;
  check(kind == "const" || kind == "linear" || kind == "cosine", "[verify] {} is `{}`",
        opt.at("schedule").where(), kind);
  out.rate.kind = kind == "const" ? Kind::CONST : kind == "linear" ? Kind::LINEAR : Kind::COSINE;
  return out;
}

namespace {

void add_setting(CaseGraph& graph, const std::string& name, const io::Json& setting) {
  const DreamerOptimizer optimizer = dreamer_optimizer(setting);
  std::vector<nn::ParamSpec> specs;
  optimizers::OptimizerState state;
  for (const auto& [key, value] : graph.inputs("param.")) {
    specs.push_back({.name = key, .shape = value.shape()});
    state.params.push_back(value);
    state.mu.push_back(zeros_like(value));
    state.nu.push_back(zeros_like(value));
  }
  state.count = constant(graph.graph(), 0.0, {DType::S32, {}});
  for (int64_t i = 0;; ++i) {
    const std::string step = "step" + std::to_string(i);
    const dreamer::TensorMap given = graph.inputs(step + ".grad.");
    if (given.empty()) {
      break;
    }
    std::vector<Tensor> gradients;
    for (const nn::ParamSpec& spec : specs) {
      gradients.push_back(given.at(spec.name));
    }
    const Tensor rate = constant(graph.graph(), optimizer.rate(i), {DType::F32, {}});
    optimizers::LaPropStep update =
        optimizers::laprop(state, specs, gradients, rate, optimizer.options);
    state = std::move(update.state);
    const std::string prefix = name + "." + step + ".";
    graph.output(prefix + "update_rms", optimizers::root_mean_square(update.changes));
    for (size_t k = 0; k < specs.size(); ++k) {
      for (const auto& [what, value] :
           {std::pair{"param.", state.params[k]}, {"mu.", state.mu[k]}, {"nu.", state.nu[k]}}) {
        graph.output(prefix + what + specs[k].name, value);
      }
    }
  }
}

}  // namespace

void dreamer_optimizer_cases(const Run& run) {
  CaseGraph graph(run);
  for (const auto& [name, setting] : run.about("settings").members()) {
    add_setting(graph, name, setting);
  }
  run.add_expected(graph.run());
}

}  // namespace kinema::verification
