#include "kinema/agents/programs.h"

#include <algorithm>
#include <optional>

#include "kinema/agent_step/draws.h"
#include "kinema/core/error.h"
#include "kinema/models/dreamer/encoder.h"
#include "kinema/models/dreamer/open_loop.h"
#include "kinema/nn/distributions.h"

namespace kinema::agents {
namespace {

using dreamer::AgentConfig;
using dreamer::TensorMap;

constexpr int64_t kByteValues = 256;

/// [leading..., rest...].
Shape with_leading(const Shape& shape, const Dims& leading) {
  Shape out{shape.dtype, leading};
  out.dims.insert(out.dims.end(), shape.dims.begin(), shape.dims.end());
  return out;
}

Shape shape_of(const dreamer::Space& space) { return {space.dtype, space.shape}; }

Tensor one_hot_of(Tensor classes, const AgentConfig& config, DType activations) {
  return nn::one_hot(convert(classes, DType::S32), config.rssm.classes, activations);
}

Tensor classes_of(Tensor index, const AgentConfig& config, DType activations) {
  return convert(index, latents(config, activations).at("dyn/stoch").dtype);
}

}  // namespace

std::map<std::string, Shape> latents(const AgentConfig& config, DType activations) {
  const DType index = config.rssm.classes <= kByteValues ? DType::U8 : DType::S32;
  return {{"dyn/deter", {activations, {config.rssm.deter}}},
          {"dyn/stoch", {index, {config.rssm.stoch}}}};
}

std::map<std::string, Shape> step_shapes(const AgentConfig& config, DType activations) {
  std::map<std::string, Shape> out = latents(config, activations);
  for (const auto& [name, space] : config.observations) {
    out[name] = shape_of(space);
  }
  for (const auto& [name, space] : config.actions) {
    out[name] = shape_of(space);
  }
  out["reward"] = {DType::F32, {}};
  for (const char* flag : {"is_first", "is_last", "is_terminal"}) {
    out[flag] = {DType::U8, {}};
  }
  out["consec"] = {DType::S32, {}};
  return out;
}

std::vector<size_t> acting_parameters(const std::vector<nn::ParamSpec>& specs) {
  std::vector<size_t> out;
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string& name = specs[i].name;
    if (name.starts_with("enc/") || name.starts_with("dyn/") || name.starts_with("pol/")) {
      out.push_back(i);
    }
  }
  return out;
}

Sharding parameter_sharding(const mesh::Placement& place, const Dims& dims) {
  const int64_t parts = place.parts(kSharded);
  std::vector<std::string> logical(dims.size());
  if (dims.size() > 1) {
    std::optional<size_t> longest;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] % parts == 0 && (!longest || dims[i] > dims[*longest])) {
        longest = i;
      }
    }
    if (longest) {
      logical[*longest] = kSharded;
    }
  }
  return place.sharding(logical, dims);
}

Sharding row_sharding(const mesh::Placement& place, const Dims& dims) {
  std::vector<std::string> logical(dims.size());
  logical.at(0) = kSequences;
  return place.sharding(logical, dims);
}

TrainGraph train_graph(const AgentConfig& config, const agent_step::StepOptions& options,
                       const BatchSize& size) {
  const DType activations = options.model.activations_dtype;
  const mesh::Placement& place = options.model.place;
  TrainGraph out;
  out.graph = std::make_unique<Graph>();
  Graph& graph = *out.graph;
  agent_step::AgentState<nn::ParamSpec> specs = agent_step::state_specs(config);
  const auto input_list = [&](const std::vector<nn::ParamSpec>& list) {
    std::vector<Tensor> tensors;
    for (const nn::ParamSpec& spec : list) {
      out.output_shardings.push_back(parameter_sharding(place, spec.shape.dims));
      tensors.push_back(graph.input(spec.shape, spec.name, out.output_shardings.back()));
    }
    return tensors;
  };
  const auto rows = [&](const Shape& shape, const std::string& name) {
    return graph.input(shape, name, row_sharding(place, shape.dims));
  };
  agent_step::AgentState<Tensor> before;
  before.params = input_list(specs.params);
  before.mu = input_list(specs.mu);
  before.nu = input_list(specs.nu);
  before.slow = input_list(specs.slow);
  before.norms = input_list(specs.norms);
  before.count = graph.input(specs.count.shape, specs.count.name, place.whole({}));
  out.output_shardings.push_back(place.whole({}));
  out.state = before.all().size();
  const auto& c = config.rssm;
  const dreamer::RssmState carried{
      .deter = rows({activations, {size.rows, c.deter}}, "carry/deter"),
      .stoch = rows({activations, {size.rows, c.stoch, c.classes}}, "carry/stoch")};
  const Tensor run_key = graph.input({DType::U32, {2}}, "key", place.whole({2}));
  const Tensor number = graph.input({DType::U32, {}}, "step", place.whole({}));
  const Tensor rate = graph.input({DType::F32, {}}, "learning_rate", place.whole({}));
  TensorMap data;
  for (const auto& [name, shape] : step_shapes(config, activations)) {
    out.data[name] = with_leading(shape, {size.rows, size.context + size.length});
    data[name] = rows(out.data[name], "data/" + name);
  }
  data["dyn/stoch"] = one_hot_of(data["dyn/stoch"], config, activations);

  const Tensor key = fold_in(fold_in(run_key, "train"), number);
  agent_step::StepResult step = agent_step::train_step(
      config, options, before, dreamer::batch_of(config, data, carried, size.context),
      agent_step::loss_draws(config, key, size.rows, size.length), rate);
  const auto last = [&](Tensor x) {
    return squeeze(slice(x, Axis(1), size.length - 1, 1), Axis(1));
  };
  for (const Tensor* tensor : step.state.all()) {
    out.outputs.push_back(*tensor);
  }
  out.outputs.push_back(last(step.loss.features.deter));
  out.outputs.push_back(last(step.loss.features.stoch));
  for (size_t i = 0; i < out.outputs.size(); ++i) {
    out.donate[static_cast<int64_t>(i)] = static_cast<int64_t>(i);
  }
  std::vector<Tensor> metrics;
  for (const auto& [name, value] : step.metrics) {
    out.metrics.push_back(name);
    metrics.push_back(reshape(convert(value, DType::F32), {1}));
  }
  out.outputs.push_back(concatenate(metrics, Axis(0)));
  out.outputs.push_back(step.loss.features.deter);
  out.outputs.push_back(classes_of(step.loss.features.index, config, activations));
  for (const size_t i : acting_parameters(specs.params)) {
    out.outputs.push_back(step.state.params[i]);
  }
  // Behind the state: both parts of the recurrent state, metrics, both latents, copies.
  for (size_t i = out.state; i < out.outputs.size(); ++i) {
    const bool is_whole = i == out.state + 2 || i > out.state + 4;
    const Dims& dims = out.outputs[i].shape().dims;
    out.output_shardings.push_back(is_whole ? place.whole(dims) : row_sharding(place, dims));
  }
  return out;
}

ActGraph act_graph(const AgentConfig& config, const nn::ModelOptions& options, int64_t n) {
  ActGraph out;
  out.graph = std::make_unique<Graph>();
  Graph& graph = *out.graph;
  const std::vector<nn::ParamSpec> specs = dreamer::parameters(config);
  const std::vector<size_t> needed = acting_parameters(specs);
  std::vector<Tensor> params;
  for (size_t i = 0; i < specs.size(); ++i) {
    // Acting reads none of the others.
    params.push_back(std::ranges::binary_search(needed, i)
                         ? graph.input(specs[i].shape, specs[i].name)
                         : constant(graph, 0.0, specs[i].shape));
  }
  const auto remembered = [&](const std::string& name, const Shape& shape) {
    out.memory.emplace_back(name, with_leading(shape, {n}));
    return graph.input(out.memory.back().second, name);
  };
  const DType activations = options.activations_dtype;
  const auto& c = config.rssm;
  dreamer::Agent::Memory before;
  before.state.deter = remembered("deter", {activations, {c.deter}});
  before.state.stoch = remembered("stoch", {activations, {c.stoch, c.classes}});
  for (const auto& [name, space] : dreamer::sorted_by_name(config.actions)) {
    before.actions[name] = remembered("action/" + name, shape_of(space));
  }
  const Tensor run_key = graph.input({DType::U32, {2}}, "key");
  const Tensor number = graph.input({DType::U32, {}}, "call");
  const Tensor is_first = graph.input({DType::U8, {n}}, "is_first");
  TensorMap observations;
  for (const auto& [name, space] : dreamer::sorted_by_name(config.observations)) {
    observations[name] = graph.input(with_leading(shape_of(space), {n}), "observation/" + name);
  }
  const Tensor key = fold_in(fold_in(run_key, "act"), number);
  dreamer::Draws draws = agent_step::state_draws(config, fold_in(key, "state"), n, 1);
  draws.noise = squeeze(draws.noise, Axis(1));
  const dreamer::Agent agent(config, options, params, {});
  const dreamer::Agent::Act act =
      agent.act(before, observations, compare(is_first, Comparison::NE, 0.0), draws,
                agent_step::action_draws(config, fold_in(key, "actions"), {n}));
  out.outputs = {act.memory.state.deter, act.memory.state.stoch};
  for (const auto& [name, space] : dreamer::sorted_by_name(config.actions)) {
    out.outputs.push_back(convert(act.memory.actions.at(name), space.dtype));
  }
  for (size_t i = 0; i < out.outputs.size(); ++i) {
    out.donate[static_cast<int64_t>(needed.size() + i)] = static_cast<int64_t>(i);
  }
  out.outputs.push_back(act.memory.state.deter);
  out.outputs.push_back(classes_of(act.index, config, activations));
  return out;
}

OpenLoopGraph open_loop_graph(const AgentConfig& config, const nn::ModelOptions& options,
                              const BatchSize& size) {
  const dreamer::Spaces images = dreamer::images_of(config);
  check(!images.empty(),
        "[agents] no observation of the task is an image, expected one to predict");
  OpenLoopGraph out;
  out.image = images[0].first;
  out.graph = std::make_unique<Graph>();
  Graph& graph = *out.graph;
  const std::vector<nn::ParamSpec> specs = dreamer::parameters(config);
  std::vector<Tensor> params;
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string& name = specs[i].name;
    if (name.starts_with("enc/") || name.starts_with("dyn/") || name.starts_with("dec/")) {
      out.parameters.push_back(i);
      params.push_back(graph.input(specs[i].shape, name));
    } else {
      params.push_back(constant(graph, 0.0, specs[i].shape));
    }
  }
  const Tensor key = fold_in(graph.input({DType::U32, {2}}, "key"), "open loop");
  const DType activations = options.activations_dtype;
  TensorMap data;
  for (const auto& [name, shape] : step_shapes(config, activations)) {
    out.data[name] = with_leading(shape, {size.rows, size.context + size.length});
    data[name] = graph.input(out.data[name], "data/" + name);
  }
  data["dyn/stoch"] = one_hot_of(data["dyn/stoch"], config, activations);
  const auto& c = config.rssm;
  // What the batch before ended with is never used: these parts of windows are their first.
  const dreamer::RssmState carried{
      .deter = constant(graph, 0.0, {activations, {size.rows, c.deter}}),
      .stoch = constant(graph, 0.0, {activations, {size.rows, c.stoch, c.classes}})};
  const dreamer::Batch batch = dreamer::batch_of(config, data, carried, size.context);
  const int64_t observed = size.length / 2;
  const auto draws = [&](const char* name, int64_t steps) {
    return agent_step::state_draws(config, fold_in(key, name), size.rows, steps);
  };
  const dreamer::Agent agent(config, options, params, {});
  const TensorMap predicted = dreamer::open_loop(agent, batch, draws("posterior", observed),
                                                 draws("prior", size.length - observed));
  const Tensor prediction = predicted.at(out.image);
  const Tensor pixels = minimum(maximum(convert(prediction, DType::F32) * 255.0, 0.0), 255.0);
  out.outputs = {convert(floor(pixels), DType::U8),
                 dreamer::open_loop_video(batch.observations.at(out.image), prediction)};
  return out;
}

}  // namespace kinema::agents
