#include "kinema/agent_step/train_step.h"

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"

namespace kinema::agent_step {
namespace {

using dreamer::AgentConfig;

std::vector<nn::ParamSpec> renamed(std::vector<nn::ParamSpec> specs, const std::string& prefix) {
  for (nn::ParamSpec& spec : specs) {
    spec.name = prefix + spec.name;
    spec.init = nn::Init::zeros();
  }
  return specs;
}

/// Parameters whole on each device.
std::vector<Tensor> gathered(const StepOptions& options, std::vector<Tensor> params) {
  for (Tensor& x : params) {
    x = options.params.empty() ? x : with_sharding(x, options.model.place.whole(x.shape().dims));
  }
  return params;
}

}  // namespace

std::vector<nn::ParamSpec> norm_specs(const AgentConfig& config) {
  const auto names = dreamer::norm_state_names(config);
  std::vector<nn::ParamSpec> out;
  for (const auto* part : {&names.returns, &names.values, &names.advantages}) {
    for (const std::string& name : *part) {
      out.push_back({.name = name, .shape = {DType::F32, {}}});
    }
  }
  return out;
}

dreamer::NormStates by_norm(const AgentConfig& config, std::span<const Tensor> norms) {
  const auto names = dreamer::norm_state_names(config);
  size_t at = 0;
  const auto next = [&](size_t count) {
    check(at + count <= norms.size(), "[agent_step] {} tensors are too few for the running norms",
          norms.size());
    const auto part = norms.subspan(at, count);
    at += count;
    return std::vector<Tensor>(part.begin(), part.end());
  };
  dreamer::NormStates out;
  out.returns = next(names.returns.size());
  out.values = next(names.values.size());
  out.advantages = next(names.advantages.size());
  return out;
}

std::vector<Tensor> as_list(const dreamer::NormStates& states) {
  std::vector<Tensor> out;
  for (const auto* part : {&states.returns, &states.values, &states.advantages}) {
    out.insert(out.end(), part->begin(), part->end());
  }
  return out;
}

AgentState<nn::ParamSpec> state_specs(const AgentConfig& config) {
  const std::vector<nn::ParamSpec> params = dreamer::parameters(config);
  return {.params = params,
          .mu = renamed(params, "opt/state/2/1/"),
          .nu = renamed(params, "opt/state/1/1/"),
          .slow = dreamer::slow_parameters(config),
          .norms = norm_specs(config),
          .count = {.name = "opt/step/value", .shape = {DType::S32, {}}}};
}

StepResult train_step(const AgentConfig& config, const StepOptions& options,
                      const AgentState<Tensor>& before, const dreamer::Batch& batch,
                      const dreamer::LossDraws& draws, Tensor learning_rate,
                      const dreamer::Agent::Tap& tap) {
  // Devices that share parameters gather them once, before the loops over time.
  const dreamer::Agent agent(config, options.model, gathered(options, before.params),
                             gathered(options, before.slow));
  const std::vector<nn::ParamSpec> specs = dreamer::parameters(config);
  StepResult out;
  out.loss = agent.loss(batch, draws, by_norm(config, before.norms), tap);
  std::vector<Tensor> grads = gradients(out.loss.total, before.params);
  for (size_t i = 0; i < options.params.size(); ++i) {
    grads.at(i) = with_sharding(grads[i], options.params[i]);
  }
  optimizers::OptimizerState optimizer{
      .params = before.params, .mu = before.mu, .nu = before.nu, .count = before.count};
  const optimizers::LaPropStep step =
      optimizers::laprop(optimizer, specs, grads, learning_rate, options.optimizer);
  std::vector<Tensor> critic;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name.starts_with("val/")) {
      critic.push_back(step.state.params[i]);
    }
  }
  out.state = {.params = step.state.params,
               .mu = step.state.mu,
               .nu = step.state.nu,
               .slow = dreamer::slow_update(config, before.slow, critic, before.count),
               .norms = as_list(out.loss.states),
               .count = step.state.count};
  out.metrics = out.loss.metrics;
  out.metrics["opt/loss"] = out.loss.total;
  out.metrics["opt/grad_norm"] = optimizers::norm(grads);
  out.metrics["opt/grad_rms"] = optimizers::root_mean_square(grads);
  out.metrics["opt/update_rms"] = optimizers::root_mean_square(step.changes);
  out.metrics["opt/param_rms"] = optimizers::root_mean_square(step.state.params);
  return out;
}

}  // namespace kinema::agent_step
