#include <cstring>
#include <map>

#include "kinema/core/error.h"
#include "kinema/models/dreamer/open_loop.h"
#include "kinema/verification/arrays.h"
#include "kinema/verification/dreamer.h"

namespace kinema::verification {
namespace {

using dreamer::TensorMap;

/// [n, t, ...] -> one time, [n, ...].
HostArray at_time(const HostArray& x, int64_t time) {
  Dims dims = x.shape.dims;
  check(dims.size() >= 2, "[verify] {} has no time axis", to_string(x.shape));
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

/// The program of one step: observations and memory to actions and memory, under the same names.
void build_policy(AgentGraph& graph) {
  TensorMap observations;
  for (const auto& [name, space] : graph.config().observations) {
    observations[name] = graph.input("obs." + name);
  }
  const dreamer::Agent::Memory before{.state = graph.state("entry"),
                                      .actions = graph.inputs("act.")};
  const dreamer::Agent::Act now =
      graph.agent.act(before, observations, flag(graph.input("obs.is_first")),
                      {.noise = graph.input("noise.post")}, {.noise = graph.inputs("noise.act.")});
  graph.output("entry.deter", now.memory.state.deter);
  graph.output("entry.stoch", now.memory.state.stoch);
  graph.output("index.post", now.index);
  for (const auto& [name, action] : now.memory.actions) {
    graph.output("act." + name, action);
  }
}

}  // namespace

void dreamer_policy_cases(const Run& run) {
  AgentGraph graph(run);
  const std::vector<std::string> given = strings(run.about("inputs"));
  const std::vector<std::string> expected = strings(run.about("expected"));
  for (const std::string& name : given) {
    graph.input(at_time(run.tensor(name), 0), name);
  }
  for (const std::string& name : expected) {
    if (name != "index.post") {  // memory, zero at first
      graph.input(HostArray(at_time(run.tensor(name), 0).shape), name);
    }
  }
  build_policy(graph);
  const int64_t steps = run.tensor("obs.is_first").shape.dims[1];
  std::map<std::string, std::vector<HostArray>> computed;
  std::map<std::string, std::vector<HostArray>> wanted;
  for (int64_t time = 0; time < steps; ++time) {
    for (const std::string& name : given) {
      graph.set(name, at_time(run.tensor(name), time));
    }
    const Values now = graph.step();
    for (const std::string& name : expected) {
      computed[name].push_back(value_of(now, name));
      wanted[name].push_back(at_time(run.tensor(name), time));
    }
  }
  for (const std::string& name : expected) {
    run.add(name, joined(computed.at(name)), joined(wanted.at(name)));
  }
}

void dreamer_report_cases(const Run& run) {
  AgentGraph graph(run);
  const dreamer::Batch batch =
      dreamer::batch_of(graph.config(), graph.inputs("data."), graph.state("carry"));
  const TensorMap predicted =
      dreamer::open_loop(graph.agent, batch, {.noise = graph.input("openloop.noise.post")},
                         {.noise = graph.input("openloop.noise.prior")});
  for (const auto& [name, images] : predicted) {
    graph.output("openloop/" + name, dreamer::open_loop_video(batch.observations.at(name), images));
  }
  run.add_expected(graph.run());
}

}  // namespace kinema::verification
