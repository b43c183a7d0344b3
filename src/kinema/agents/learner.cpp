#include "kinema/agents/learner.h"

#include <algorithm>

#include "kinema/agents/device.h"
#include "kinema/core/error.h"
#include "kinema/core/threefry.h"
#include "kinema/io/safetensors.h"
#include "kinema/io/tensor_file.h"
#include "kinema/nn/init.h"

namespace kinema::agents {
namespace {

template <typename T>
HostArray scalar(DType dtype, T value) {
  return HostArray::from<T>(dtype, {}, std::vector<T>{value});
}

/// Steps `first` on of stepid [rows, steps, 20].
HostArray trained_ids(const HostArray& stepid, int64_t first) {
  const int64_t rows = stepid.shape.dims[0];
  const int64_t steps = stepid.shape.dims[1];
  const int64_t bytes = stepid.shape.dims[2];
  HostArray out(Shape{DType::U8, {rows, steps - first, bytes}});
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(stepid.bytes.begin() + (row * steps + first) * bytes, (steps - first) * bytes,
                out.bytes.begin() + row * (steps - first) * bytes);
  }
  return out;
}

/// The arrays of a saved agent, with the shapes of the specs.
HostArray read_array(const io::TensorFile& file, const nn::ParamSpec& spec) {
  const io::TensorView& view = file.at(spec.name);
  check(view.shape == spec.shape,
        "[agents] `{}` in {} is {} but this agent's is {}\n  the settings of the run have changed",
        spec.name, file.path(), to_string(view.shape), to_string(spec.shape));
  return view.copy();
}

}  // namespace

LearnerOptions over(const mesh::Placement& place, const dreamer::AgentConfig& config,
                    LearnerOptions options) {
  options.step.model.place = place;
  if (place.active()) {
    for (const nn::ParamSpec& spec : dreamer::parameters(config)) {
      options.step.params.push_back(parameter_sharding(place, spec.shape.dims));
    }
  }
  return options;
}

agent_step::AgentState<HostArray> initial_state(const dreamer::AgentConfig& config, uint64_t seed) {
  agent_step::AgentState<nn::ParamSpec> specs = agent_step::state_specs(config);
  agent_step::AgentState<HostArray> out;
  for (const nn::ParamSpec& spec : specs.params) {
    HostArray values(spec.shape);
    nn::initial_values(spec.init, spec.shape.dims, spec.name, seed, values.as<float>());
    if (spec.name.starts_with("val/")) {
      out.slow.push_back(values);
    }
    out.params.push_back(std::move(values));
  }
  for (auto [from, to] :
       {std::pair{&specs.mu, &out.mu}, {&specs.nu, &out.nu}, {&specs.norms, &out.norms}}) {
    for (const nn::ParamSpec& spec : *from) {
      to->push_back(HostArray(spec.shape));
    }
  }
  out.count = HostArray(specs.count.shape);
  return out;
}

Learner::Learner(const runtime::Devices& devices, const dreamer::AgentConfig& config,
                 const LearnerOptions& options, const runtime::ProgramOptions& program)
    : devices_(devices),
      config_(config),
      options_(over(devices.placement(), config, options)),
      graph_(train_graph(config, options_.step, options.batch)),
      specs_(agent_step::state_specs(config)) {
  runtime::ProgramOptions how = program;
  how.name = "agent_train";
  graph_.set_emit(how.emit);
  split_over(devices_.placement(), devices_.client().platform_name(), how);
  program_ = std::make_unique<runtime::Program>(
      runtime::Program::compile(devices_.client(), *graph_.graph, graph_.outputs, how));
  for (const nn::ParamSpec& spec : specs_.params) {
    parameter_count_ += spec.shape.elements();
  }
  upload(initial_state(config_, options_.seed));
}

void Learner::upload(const agent_step::AgentState<HostArray>& state) {
  agent_step::AgentState<HostArray> arrays = state;
  const auto& ports = program_->inputs();
  state_.clear();
  for (const HostArray* array : arrays.all()) {
    state_.push_back(devices_.upload(*array, ports[state_.size()].sharding));
  }
  for (size_t i = graph_.state; i < graph_.state + 2; ++i) {
    state_.push_back(devices_.upload(HostArray(ports[i].shape), ports[i].sharding));
  }
  std::vector<runtime::Array> acting;
  for (const size_t i : acting_parameters(specs_.params)) {
    acting.push_back(devices_.upload(arrays.params[i]));
  }
  acting_ = std::make_shared<const std::vector<runtime::Array>>(std::move(acting));
}

Learner::Result Learner::run(const replay::Arrays& batch) {
  const Stopwatch watch;
  const auto key = random_key(options_.seed, "agent");
  std::vector<runtime::Array> rest;
  const auto give = [&](const HostArray& array) {
    rest.push_back(
        devices_.upload(array, program_->inputs()[state_.size() + rest.size()].sharding));
  };
  give(HostArray::from<uint32_t>(DType::U32, {2}, std::span<const uint32_t>(key)));
  give(scalar(DType::U32, static_cast<uint32_t>(updates_)));
  give(scalar(DType::F32, static_cast<float>(options_.rate(updates_))));
  for (const auto& [name, shape] : graph_.data) {
    const auto found = batch.find(name);
    check(found != batch.end(), "[agents] replayed steps have no `{}`", name);
    check(found->second.shape == shape, "[agents] replayed `{}` is {} but must be {}", name,
          to_string(found->second.shape), to_string(shape));
    give(found->second);
  }
  std::vector<const runtime::Array*> arguments;
  for (const auto* part : {&state_, &rest}) {
    for (const runtime::Array& array : *part) {
      arguments.push_back(&array);
    }
  }
  std::vector<runtime::Array> outputs = program_->run(devices_, arguments);
  const size_t changed = state_.size();
  Result result;
  const HostArray metrics = outputs[changed].to_host();
  for (size_t i = 0; i < graph_.metrics.size(); ++i) {
    result.metrics.emplace_back(graph_.metrics[i], metrics.as<float>()[i]);
  }
  result.metrics.emplace_back("opt/updates", static_cast<double>(updates_ + 1));
  result.metrics.emplace_back("opt/param_count", static_cast<double>(parameter_count_));
  result.latents["dyn/deter"] = outputs[changed + 1].to_host();
  result.latents["dyn/stoch"] = outputs[changed + 2].to_host();
  result.stepid = trained_ids(batch.at("stepid"), options_.batch.context);
  std::vector<runtime::Array> acting;
  for (size_t i = changed + 3; i < outputs.size(); ++i) {
    acting.push_back(std::move(outputs[i]));
  }
  next_acting_ = std::make_shared<const std::vector<runtime::Array>>(std::move(acting));
  outputs.resize(changed);
  state_ = std::move(outputs);
  result.seconds = watch.seconds();
  return result;
}

void Learner::begin(replay::Arrays batch) {
  check(!is_busy(), "[agents] a step of training began before the last one ended");
  running_ =
      std::async(std::launch::async, [this, batch = std::move(batch)] { return run(batch); });
}

Learner::Result Learner::end() {
  Result result = running_.get();
  ++updates_;
  acting_ = std::move(next_acting_);
  return result;
}

void Learner::save(const std::filesystem::path& file) const {
  check(!is_busy(), "[agents] a step of training runs while the agent is saved");
  std::vector<io::TensorEntry> entries;
  agent_step::AgentState<nn::ParamSpec> specs = specs_;
  const std::vector<nn::ParamSpec*> all = specs.all();
  for (size_t i = 0; i < state_.size(); ++i) {
    const std::string name = i < all.size()    ? all[i]->name
                             : i == all.size() ? "carry/deter"
                                               : "carry/stoch";
    entries.push_back(io::TensorEntry::lazy(name, program_->inputs()[i].shape,
                                            [this, i] { return state_[i].to_host(); }));
  }
  io::write_safetensors(file, entries);
}

void Learner::restore(const std::filesystem::path& path) {
  check(!is_busy(), "[agents] a step of training runs while the agent is read");
  const io::TensorFile file = io::TensorFile::open(path);
  agent_step::AgentState<HostArray> state = initial_state(config_, options_.seed);
  agent_step::AgentState<nn::ParamSpec> specs = specs_;
  const std::vector<HostArray*> arrays = state.all();
  const std::vector<nn::ParamSpec*> all = specs.all();
  for (size_t i = 0; i < all.size(); ++i) {
    *arrays[i] = read_array(file, *all[i]);
  }
  upload(state);
  for (const auto& [i, name] :
       {std::pair{graph_.state, "carry/deter"}, {graph_.state + 1, "carry/stoch"}}) {
    const Shape& shape = program_->inputs()[i].shape;
    if (file.find(name) != nullptr && file.at(name).shape == shape) {
      state_[i] = devices_.upload(file.at(name).copy(), program_->inputs()[i].sharding);
    }
  }
  updates_ = state.count.as<int32_t>()[0];
}

std::vector<pjrt::Buffer> read_parameters(const pjrt::Client& client,
                                          const dreamer::AgentConfig& config,
                                          const std::filesystem::path& path,
                                          std::span<const size_t> positions) {
  const io::TensorFile file = io::TensorFile::open(path);
  const std::vector<nn::ParamSpec> specs = dreamer::parameters(config);
  std::vector<pjrt::Buffer> out;
  for (const size_t i : positions) {
    out.push_back(client.to_device(read_array(file, specs.at(i))));
  }
  return out;
}

ActingParameters read_acting_parameters(const pjrt::Client& client,
                                        const dreamer::AgentConfig& config,
                                        const std::filesystem::path& path) {
  return std::make_shared<const std::vector<runtime::Array>>(runtime::to_arrays(
      read_parameters(client, config, path, acting_parameters(dreamer::parameters(config)))));
}

}  // namespace kinema::agents
