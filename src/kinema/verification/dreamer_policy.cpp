#include <fmt/format.h>

#include <cstring>

#include "kinema/core/error.h"
#include "kinema/models/dreamer/open_loop.h"
#include "kinema/verification/dreamer.h"
#include "kinema/verification/named_program.h"

namespace kinema::verification {
namespace {

using dreamer::TensorMap;

/// [n, t, ...] -> one time, [n, ...].
HostArray at_time(const HostArray& x, int64_t time) {
  Dims dims = x.shape.dims;
  check(dims.size() >= 2, "[verify] {} has no time", to_string(x.shape));
  const int64_t length = dims[1];
  dims.erase(dims.begin() + 1);
  HostArray out(Shape{x.shape.dtype, dims});
  const int64_t bytes = out.shape.bytes() / dims[0];
  for (int64_t row = 0; row < dims[0]; ++row) {
    std::memcpy(out.bytes.data() + row * bytes, x.bytes.data() + (row * length + time) * bytes,
                static_cast<size_t>(bytes));
  }
  return out;
}

/// Puts one time into [n, t, ...].
void set_time(HostArray& all, int64_t time, const HostArray& x) {
  const int64_t rows = all.shape.dims[0];
  const int64_t length = all.shape.dims[1];
  const int64_t bytes = x.shape.bytes() / rows;
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(all.bytes.data() + (row * length + time) * bytes, x.bytes.data() + row * bytes,
                static_cast<size_t>(bytes));
  }
}

/// One step of a policy: observations and memory to actions and memory.
void build_policy(NamedProgram& program, const NamedArrays& values, const DreamerModel& model,
                  const nn::ModelOptions& options) {
  const dreamer::AgentConfig& config = model.config();
  const auto value = [&](const std::string& name) { return program.input(name, values.at(name)); };
  std::vector<Tensor> params;
  for (const nn::ParamSpec& spec : dreamer::parameters(config)) {
    params.push_back(value("param." + spec.name));
  }
  const dreamer::Agent agent(config, options, params, {});
  TensorMap observations;
  for (const auto& [name, space] : config.observations) {
    observations[name] = value("obs." + name);
  }
  const dreamer::Agent::Memory before{
      .state = {.deter = value("entry.deter"), .stoch = value("entry.stoch")},
      .actions = program.inputs("act.", values)};
  const dreamer::Agent::Act now =
      agent.act(before, observations, flag(value("obs.is_first")), {.noise = value("noise.post")},
                {.noise = program.inputs("noise.act.", values)});
  program.output("entry.deter", now.memory.state.deter);
  program.output("entry.stoch", now.memory.state.stoch);
  program.output("index.post", now.index);
  for (const auto& [name, action] : now.memory.actions) {
    program.output("act." + name, action);
  }
}

}  // namespace

std::vector<Row> dreamer_policy_rows(const Case& c, Session& session) {
  const DreamerModel model(c.model());
  NamedArrays values;
  for (const nn::ParamSpec& spec : dreamer::parameters(model.config())) {
    values["param." + spec.name] = model.tensor(spec.name);
  }
  NamedArrays all;  // expected, as computed
  for (const io::Json& item : c.about().at("expected").items()) {
    const HostArray expected = c.tensor(item.as_string());
    all[item.as_string()] = HostArray(expected.shape);
    // Memory is zero at first.
    values[item.as_string()] = HostArray(at_time(expected, 0).shape);
  }
  const int64_t steps = c.tensor("obs.is_first").shape.dims[1];
  const auto set_inputs = [&](int64_t time) {
    for (const io::Json& item : c.about().at("inputs").items()) {
      values[item.as_string()] = at_time(c.tensor(item.as_string()), time);
    }
  };
  set_inputs(0);
  NamedProgram program;
  build_policy(program, values, model, session.model_options());
  for (int64_t time = 0; time < steps; ++time) {
    set_inputs(time);
    NamedArrays after = program.run(values, session, "dreamer_policy");
    for (auto& [name, value] : all) {
      set_time(value, time, after.at(name));
    }
    replace(values, std::move(after));
  }
  const Limits limits(c.about());
  std::vector<Row> rows;
  for (const auto& [name, value] : all) {
    rows.push_back(compare(c.name(), name, value, c.tensor(name), limits.of(name)));
  }
  return rows;
}

std::vector<Row> dreamer_report_rows(const Case& c, Session& session) {
  const DreamerModel model(c.model());
  CaseGraph graph(c);
  const dreamer::Agent agent = model.agent(graph, session.model_options());
  const dreamer::Batch batch =
      dreamer::batch_of(model.config(), graph.inputs("data."),
                        {.deter = graph.input("carry.deter"), .stoch = graph.input("carry.stoch")});
  const TensorMap predicted =
      dreamer::open_loop(agent, batch, {.noise = graph.input("openloop.noise.post")},
                         {.noise = graph.input("openloop.noise.prior")});
  for (const auto& [name, images] : predicted) {
    graph.expect("openloop/" + name, dreamer::open_loop_video(batch.observations.at(name), images));
  }
  return graph.run(session);
}

}  // namespace kinema::verification
