#include <fmt/format.h>

#include <map>

#include "kinema/agent_step/train_step.h"
#include "kinema/verification/arrays.h"
#include "kinema/verification/dreamer.h"

namespace kinema::verification {
namespace {

using dreamer::TensorMap;

HostArray integer(int32_t value) {
  return HostArray::from<int32_t>(DType::S32, {}, std::vector<int32_t>{value});
}
HostArray scalar(float value) { return HostArray::f32({}, std::vector<float>{value}); }

/// What a step is given: `data.NAME`, `noise.NAME`, and the learning rate.
Values inputs_of_step(const Run& run, int64_t step, double rate) {
  Values out;
  const std::string prefix = fmt::format("step{}.", step);
  for (const char* kind : {"data.", "noise."}) {
    for (const std::string& name : run.c.names(prefix + kind)) {
      out.emplace_back(name.substr(prefix.size()), run.tensor(name));
    }
  }
  out.emplace_back("rate", scalar(static_cast<float>(rate)));
  return out;
}

/// A step of training. What it changes are inputs and outputs with the same names: parameters,
/// moments, the slow critic, running norms, counts, and the state of the replayed rows.
class DreamerStep : public AgentGraph {
 public:
  DreamerStep(const Run& run, const optimizers::LaPropOptions& optimizer) : AgentGraph(run) {
    for (const auto& [name, value] : inputs_of_step(run, 0, 0.0)) {
      input(value, name);
    }
    for (const char* name : {"deter", "stoch"}) {
      input(run.tensor(std::string("carry.") + name), std::string("carry_after.") + name);
    }
    const TensorMap data = inputs("data.");
    agent_step::AgentState<Tensor> before{.params = params, .slow = slow};
    for (const nn::ParamSpec& spec : specs) {
      before.mu.push_back(input(HostArray(spec.shape), "mu." + spec.name));
      before.nu.push_back(input(HostArray(spec.shape), "nu." + spec.name));
    }
    before.norms = agent_step::as_list(norm_states());
    before.count = input(integer(0), "other.opt/step/value");
    const agent_step::StepResult step = agent_step::train_step(
        config(), {.model = agent.options(), .optimizer = optimizer}, before,
        dreamer::batch_of(config(), data, state("carry_after")), loss_draws(*this), input("rate"),
        [&](const std::string& name, Tensor index) { output_index(name, index); });
    output_state(step.state);
    output_features(step.loss.features, data);
    for (const auto& [name, metric] : step.metrics) {
      output("metric." + name, metric);
    }
  }

 private:
  void output_all(const std::string& prefix, const std::vector<nn::ParamSpec>& of,
                  const std::vector<Tensor>& tensors) {
    for (size_t i = 0; i < of.size(); ++i) {
      output(prefix + of[i].name, tensors[i]);
    }
  }

  void output_state(const agent_step::AgentState<Tensor>& after) {
    output_all("param.", specs, after.params);
    output_all("mu.", specs, after.mu);
    output_all("nu.", specs, after.nu);
    output_all("other.", slow_specs, after.slow);
    output_states("other.", agent_step::by_norm(config(), after.norms));
    output("other.opt/step/value", after.count);
  }

  /// Which classes a rollout drew.
  void output_index(const std::string& name, Tensor index) {
    constexpr std::string_view kRollout = "imag.";
    if (name.starts_with("imag.act.")) {
      output("index." + name.substr(kRollout.size()), index);
    } else if (name == "index.prior") {
      output(name, index);
    }
  }

  void output_features(const dreamer::RssmFeatures& features, const TensorMap& data) {
    output("index.post", features.index);
    output("replay.dyn/deter", features.deter);
    output("replay.dyn/stoch", features.stoch);
    const auto last = [](Tensor x) { return squeeze(slice(x, Axis(1), x.dim(1) - 1, 1), Axis(1)); };
    output("carry_after.deter", last(features.deter));
    output("carry_after.stoch", last(features.stoch));
    for (const auto& [name, space] : config().actions) {
      output("carry_after.act." + name, last(data.at(name)));
    }
  }
};

/// Steps' outputs `stepN.NAME`, the last step's `NAME`, and metrics of all steps [steps].
Values train(const Run& run, const DreamerOptimizer& optimizer) {
  DreamerStep graph(run, optimizer.options);
  int64_t parameters = 0;
  for (const nn::ParamSpec& spec : graph.specs) {
    parameters += spec.shape.elements();
  }
  Values out;
  std::map<std::string, std::vector<HostArray>> metrics;
  const int64_t steps = std::ssize(run.about("consec").items());
  for (int64_t i = 0; i < steps; ++i) {
    for (const auto& [name, value] : inputs_of_step(run, i, optimizer.rate(i))) {
      graph.set(name, value);
    }
    const Values after = graph.step();
    for (const auto& [name, value] : after) {
      if (name.starts_with("metric.")) {
        metrics[name].push_back(value);
        continue;
      }
      out.emplace_back(fmt::format("step{}.{}", i, name), value);
      if (i + 1 == steps) {
        out.emplace_back(name, value);
      }
    }
    metrics["metric.opt/updates"].push_back(value_of(after, "other.opt/step/value"));
    metrics["metric.opt/param_count"].push_back(scalar(static_cast<float>(parameters)));
  }
  for (const auto& [name, scalars] : metrics) {
    out.emplace_back(name, joined(scalars));
  }
  return out;
}

}  // namespace

void dreamer_train_cases(const Run& run) {
  Values computed = train(run, dreamer_optimizer(run.about("optimizer")));
  // The original's optimizer and slow critic count updates by themselves.
  const HostArray count = value_of(computed, "other.opt/step/value");
  for (const char* name : {"slowval_count/value", "opt/state/1/0", "opt/state/2/0",
                           "opt/state/3/count", "opt/state/4/count"}) {
    computed.emplace_back(std::string("other.") + name, count);
  }
  run.add_expected(computed);
}

}  // namespace kinema::verification
