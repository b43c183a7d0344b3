#include "kinema/agents/actor.h"

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"

namespace kinema::agents {
namespace {

constexpr std::string_view kAction = "action/";

}  // namespace

Actor::Actor(const pjrt::Client& client, const dreamer::AgentConfig& config,
             const nn::ModelOptions& options, int64_t n, uint64_t seed,
             const runtime::ProgramOptions& program)
    : client_(client), graph_(act_graph(config, options, n)), config_(config), n_(n), seed_(seed) {
  runtime::ProgramOptions how = program;
  how.name = "agent_act";
  how.emit.donate = graph_.donate;
  program_ = std::make_unique<runtime::Program>(
      runtime::Program::compile(client_, *graph_.graph, graph_.outputs, how));
  for (const auto& [name, shape] : graph_.memory) {
    memory_.push_back(client_.to_device(HostArray(shape)));
  }
}

void Actor::set(ActingParameters parameters) {
  parameters_ = std::move(parameters);
  const int64_t own = client_.addressable_devices().at(0).id();
  here_.clear();
  copies_.clear();
  copies_.reserve(parameters_->size());
  for (const runtime::Array& array : *parameters_) {
    const auto shards = array.shards();
    const auto found = std::ranges::find(shards, own, &pjrt::Buffer::device_id);
    if (found == shards.end()) {
      copies_.push_back(client_.to_device(array.to_host()));
    }
    here_.push_back(found == shards.end() ? &copies_.back() : &*found);
  }
}

Actor::Acted Actor::act(const environments::Arrays& observations, std::span<const uint8_t> is_first,
                        int64_t number) {
  check(parameters_ != nullptr, "[agents] an actor needs parameters");
  const auto key = random_key(seed_, "agent");
  std::vector<pjrt::Buffer> rest;
  rest.push_back(client_.to_device(
      HostArray::from<uint32_t>(DType::U32, {2}, std::span<const uint32_t>(key))));
  rest.push_back(client_.to_device(HostArray::from<uint32_t>(
      DType::U32, {}, std::vector<uint32_t>{static_cast<uint32_t>(number)})));
  rest.push_back(client_.to_device(HostArray::from<uint8_t>(DType::U8, {n_}, is_first)));
  for (const auto& [name, space] : dreamer::sorted_by_name(config_.observations)) {
    const auto found = observations.find(name);
    check(found != observations.end(), "[agents] there is no observation `{}`", name);
    rest.push_back(client_.to_device(found->second));
  }
  std::vector<const pjrt::Buffer*> arguments = here_;
  for (const auto* part : {&memory_, &rest}) {
    for (const pjrt::Buffer& buffer : *part) {
      arguments.push_back(&buffer);
    }
  }
  std::vector<pjrt::Buffer> outputs = program_->run(arguments);
  const size_t remembered = memory_.size();
  Acted out;
  for (size_t i = 0; i < remembered; ++i) {
    if (const std::string& name = graph_.memory[i].first; name.starts_with(kAction)) {
      out.actions[name.substr(kAction.size())] = outputs[i].to_host();
    }
  }
  out.latents["dyn/deter"] = outputs[remembered].to_host();
  out.latents["dyn/stoch"] = outputs[remembered + 1].to_host();
  outputs.resize(remembered);
  memory_ = std::move(outputs);
  return out;
}

environments::Arrays Actor::memory() const {
  environments::Arrays out;
  for (size_t i = 0; i < memory_.size(); ++i) {
    out[graph_.memory[i].first] = memory_[i].to_host();
  }
  return out;
}

void Actor::restore(const environments::Arrays& memory) {
  for (size_t i = 0; i < memory_.size(); ++i) {
    const auto& [name, shape] = graph_.memory[i];
    const auto found = memory.find(name);
    check(found != memory.end() && found->second.shape == shape,
          "[agents] a saved actor has no `{}` of {}", name, to_string(shape));
    memory_[i] = client_.to_device(found->second);
  }
}

}  // namespace kinema::agents
