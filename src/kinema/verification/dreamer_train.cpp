#include <fmt/format.h>

#include <cstring>

#include "kinema/graph/autodiff.h"
#include "kinema/training/laprop.h"
#include "kinema/verification/dreamer.h"
#include "kinema/verification/named_program.h"

namespace kinema::verification {
namespace {

using dreamer::TensorMap;

HostArray scalar(float value) { return HostArray::f32({}, std::vector<float>{value}); }
HostArray integer(int32_t value) {
  return HostArray::from<int32_t>(DType::S32, {}, std::vector<int32_t>{value});
}

std::vector<std::string> all_norm_names(const dreamer::AgentConfig& config) {
  const auto names = dreamer::norm_state_names(config);
  std::vector<std::string> all = names.returns;
  all.insert(all.end(), names.values.begin(), names.values.end());
  all.insert(all.end(), names.advantages.begin(), names.advantages.end());
  return all;
}

/// What is the same in every step of training, and changes with it: parameters, moments, slow
/// critic, running norms, counts, and the state of the replayed rows.
NamedArrays start_of(const Case& c, const DreamerModel& model) {
  NamedArrays out;
  for (const nn::ParamSpec& spec : dreamer::parameters(model.config())) {
    out["param." + spec.name] = model.tensor(spec.name);
    out["mu." + spec.name] = HostArray(spec.shape);
    out["nu." + spec.name] = HostArray(spec.shape);
  }
  for (const nn::ParamSpec& spec : dreamer::slow_parameters(model.config())) {
    out["other." + spec.name] = model.tensor(spec.name);
  }
  for (const std::string& name : all_norm_names(model.config())) {
    out["other." + name] = model.tensor(name);
  }
  out["other.opt/step/value"] = integer(0);
  for (const char* name : {"deter", "stoch"}) {
    out[std::string("carry_after.") + name] = c.tensor(std::string("carry.") + name);
  }
  return out;
}

/// What one step is given: `data.NAME`, `noise.NAME`, the learning rate.
NamedArrays step_inputs(const Case& c, int64_t number, double rate) {
  NamedArrays out;
  const std::string prefix = fmt::format("step{}.", number);
  for (const char* kind : {"data.", "noise."}) {
    for (const std::string& name : c.names(prefix + kind)) {
      out[name.substr(prefix.size())] = c.tensor(name);
    }
  }
  out["rate"] = scalar(static_cast<float>(rate));
  return out;
}

/// One step of training as a program from and to these names.
class TrainStep {
 public:
  TrainStep(NamedProgram& program, const NamedArrays& values, const DreamerModel& model,
            const nn::ModelOptions& options, const training::LaPropOptions& optimizer)
      : program_(program),
        values_(values),
        config_(model.config()),
        specs_(dreamer::parameters(config_)),
        slow_specs_(dreamer::slow_parameters(config_)),
        options_(options),
        optimizer_(optimizer) {}

  void build() {
    const training::OptimizerState before{.params = of("param.", specs_),
                                          .mu = of("mu.", specs_),
                                          .nu = of("nu.", specs_),
                                          .count = value("other.opt/step/value")};
    const std::vector<Tensor> slow = of("other.", slow_specs_);
    const dreamer::Agent agent(config_, options_, before.params, slow);
    const dreamer::LossOutputs loss = loss_of(agent);
    const std::vector<Tensor> grads = gradients(loss.total, before.params);
    const training::LaPropStep step =
        training::laprop(before, specs_, grads, value("rate"), optimizer_);
    give("param.", specs_, step.state.params);
    give("mu.", specs_, step.state.mu);
    give("nu.", specs_, step.state.nu);
    program_.output("other.opt/step/value", step.state.count);
    std::vector<Tensor> critic;
    for (size_t i = 0; i < specs_.size(); ++i) {
      if (specs_[i].name.starts_with("val/")) {
        critic.push_back(step.state.params[i]);
      }
    }
    give("other.", slow_specs_, dreamer::slow_update(config_, slow, critic, before.count));
    for (const auto& [name, metric] :
         TensorMap{{"loss", loss.total},
                   {"grad_norm", training::norm(grads)},
                   {"grad_rms", training::root_mean_square(grads)},
                   {"update_rms", training::root_mean_square(step.changes)},
                   {"param_rms", training::root_mean_square(step.state.params)}}) {
      program_.output("metric.opt/" + name, metric);
    }
  }

 private:
  Tensor value(const std::string& name) { return program_.input(name, values_.at(name)); }
  std::vector<Tensor> of(const std::string& prefix, const std::vector<nn::ParamSpec>& specs) {
    std::vector<Tensor> out;
    for (const nn::ParamSpec& spec : specs) {
      out.push_back(value(prefix + spec.name));
    }
    return out;
  }
  void give(const std::string& prefix, const std::vector<nn::ParamSpec>& specs,
            const std::vector<Tensor>& tensors) {
    for (size_t i = 0; i < specs.size(); ++i) {
      program_.output(prefix + specs[i].name, tensors[i]);
    }
  }

  dreamer::LossOutputs loss_of(const dreamer::Agent& agent) {
    const dreamer::RssmState carried{.deter = value("carry_after.deter"),
                                     .stoch = value("carry_after.stoch")};
    const TensorMap data = program_.inputs("data.", values_);
    const auto names = dreamer::norm_state_names(config_);
    const auto states = [&](const std::vector<std::string>& scalars) {
      std::vector<Tensor> out;
      for (const std::string& name : scalars) {
        out.push_back(value("other." + name));
      }
      return out;
    };
    dreamer::LossDraws draws{.posterior = {.noise = value("noise.post")},
                             .prior = {.noise = value("noise.prior")}};
    draws.actions.noise = program_.inputs("noise.act.", values_);
    const auto tap = [&](const std::string& name, Tensor index) {
      constexpr std::string_view kRollout = "imag.";
      if (name.starts_with("imag.act.")) {
        program_.output("index." + name.substr(kRollout.size()), index);
      } else if (name == "index.prior") {
        program_.output(name, index);
      }
    };
    const dreamer::LossOutputs loss = agent.loss(dreamer::batch_of(config_, data, carried), draws,
                                                 {.returns = states(names.returns),
                                                  .values = states(names.values),
                                                  .advantages = states(names.advantages)},
                                                 tap);
    for (const auto& [scalars, after] : {std::pair{names.returns, loss.states.returns},
                                         {names.values, loss.states.values},
                                         {names.advantages, loss.states.advantages}}) {
      for (size_t i = 0; i < scalars.size(); ++i) {
        program_.output("other." + scalars[i], after[i]);
      }
    }
    program_.output("index.post", loss.features.index);
    program_.output("replay.dyn/deter", loss.features.deter);
    program_.output("replay.dyn/stoch", loss.features.stoch);
    const auto last = [](Tensor x) { return squeeze(slice(x, Axis(1), x.dim(1) - 1, 1), Axis(1)); };
    program_.output("carry_after.deter", last(loss.features.deter));
    program_.output("carry_after.stoch", last(loss.features.stoch));
    for (const auto& [name, space] : config_.actions) {
      program_.output("carry_after.act." + name, last(data.at(name)));
    }
    for (const auto& [name, metric] : loss.metrics) {
      program_.output("metric." + name, metric);
    }
    return loss;
  }

  NamedProgram& program_;
  const NamedArrays& values_;
  const dreamer::AgentConfig& config_;
  std::vector<nn::ParamSpec> specs_;
  std::vector<nn::ParamSpec> slow_specs_;
  nn::ModelOptions options_;
  training::LaPropOptions optimizer_;
};

/// Scalars of all steps end to end.
HostArray joined(const std::vector<HostArray>& scalars) {
  std::vector<float> values;
  for (const HostArray& x : scalars) {
    values.push_back(is_float(x.shape.dtype) ? x.as<float>()[0]
                                             : static_cast<float>(x.as<int32_t>()[0]));
  }
  return HostArray::f32({static_cast<int64_t>(values.size())}, values);
}

/// What the fixtures' README asks after several steps. LaProp divides by roots of squares, so that
/// the rounding of a tiny gradient counts as much as that of a large one: the reference itself is
/// up to 9e-5 of the largest value from its run in float64, and a step may go the other way where a
/// gradient is all rounding (two learning rates, in few elements).
Limit train_limit(const std::string& name, const Limits& limits) {
  const Limit stated = limits.of(name);
  if (name.starts_with("mu.")) {
    return {.of_largest = 5e-3};
  }
  if (name.starts_with("nu.")) {
    return {.of_largest = 1e-3};
  }
  if (name.starts_with("metric.")) {
    return {.absolute = 1e-4, .relative = 1e-3};
  }
  if (name.find("param.") != std::string::npos) {
    return {.absolute = 2e-3, .rms = 1e-4};
  }
  return stated;
}

int64_t elements_of(const std::vector<nn::ParamSpec>& specs) {
  int64_t n = 0;
  for (const nn::ParamSpec& spec : specs) {
    n += spec.shape.elements();
  }
  return n;
}

}  // namespace

std::vector<Row> dreamer_train_rows(const Case& c, Session& session) {
  const DreamerModel model(c.model());
  const DreamerOptimizer optimizer = dreamer_optimizer(c.about().at("optimizer"));
  NamedArrays values = start_of(c, model);
  replace(values, step_inputs(c, 0, optimizer.rate(0)));
  NamedProgram program;
  TrainStep(program, values, model, session.model_options(), optimizer.options).build();

  const Limits limits(c.about());
  std::map<std::string, HostArray> computed;
  std::map<std::string, std::vector<HostArray>> metrics;
  const auto steps = static_cast<int64_t>(c.about().at("consec").items().size());
  const int64_t parameters = elements_of(dreamer::parameters(model.config()));
  for (int64_t i = 0; i < steps; ++i) {
    replace(values, step_inputs(c, i, optimizer.rate(i)));
    NamedArrays after = program.run(values, session, "dreamer_train");
    for (const auto& [name, value] : after) {
      if (name.starts_with("metric.")) {
        metrics[name].push_back(value);
      }
      computed[fmt::format("step{}.{}", i, name)] = value;
    }
    metrics["metric.opt/updates"].push_back(after.at("other.opt/step/value"));
    metrics["metric.opt/param_count"].push_back(scalar(static_cast<float>(parameters)));
    replace(values, std::move(after));
  }
  for (const auto& [name, scalars] : metrics) {
    values[name] = joined(scalars);
  }
  replace(computed, std::move(values));
  // The original's optimizer and slow critic count updates by themselves.
  for (const char* name : {"slowval_count/value", "opt/state/1/0", "opt/state/2/0",
                           "opt/state/3/count", "opt/state/4/count"}) {
    computed[std::string("other.") + name] = computed.at("other.opt/step/value");
  }
  std::vector<Row> rows;
  for (const io::Json& item : c.about().at("expected").items()) {
    const std::string& name = item.as_string();
    const auto found = computed.find(name);
    rows.push_back(found == computed.end() ? failed(c.name(), name, "nothing was computed for it")
                                           : compare(c.name(), name, found->second, c.tensor(name),
                                                     train_limit(name, limits)));
  }
  return rows;
}

}  // namespace kinema::verification
