#include "kinema/verification/named_program.h"

#include "kinema/core/error.h"

namespace kinema::verification {

Tensor NamedProgram::input(const std::string& name, const HostArray& value) {
  const auto found = inputs_.find(name);
  if (found != inputs_.end()) {
    return found->second;
  }
  order_.push_back(name);
  return inputs_[name] = graph_.input(value.shape, name);
}

std::map<std::string, Tensor> NamedProgram::inputs(const std::string& prefix,
                                                   const NamedArrays& values) {
  std::map<std::string, Tensor> out;
  for (const auto& [name, value] : values) {
    if (name.starts_with(prefix)) {
      out[name.substr(prefix.size())] = input(name, value);
    }
  }
  return out;
}

NamedArrays NamedProgram::run(const NamedArrays& values, Session& session,
                              const std::string& name) const {
  std::vector<pjrt::Buffer> arguments;
  for (const std::string& input : order_) {
    const auto found = values.find(input);
    check(found != values.end(), "[verify] there is no value of `{}`", input);
    arguments.push_back(session.client().to_device(found->second));
  }
  std::vector<Tensor> outputs;
  for (const auto& [output, value] : outputs_) {
    outputs.push_back(value);
  }
  const auto results =
      session.program(graph_, outputs, name).run(std::span<const pjrt::Buffer>(arguments));
  NamedArrays out;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    out[outputs_[i].first] = results[i].to_host();
  }
  return out;
}

void replace(NamedArrays& into, NamedArrays from) {
  for (auto& [name, value] : from) {
    into[name] = std::move(value);
  }
}

}  // namespace kinema::verification
