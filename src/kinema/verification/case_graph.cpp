#include "kinema/verification/case_graph.h"

#include <algorithm>
#include <set>

#include "kinema/core/error.h"

namespace kinema::verification {

CaseGraph::CaseGraph(const Case& c) : case_(c), limits_(c.about()) {}

Tensor CaseGraph::input(const std::string& name) {
  const auto found = named_.find(name);
  return found != named_.end() ? found->second : input(name, case_.tensor(name));
}

Tensor CaseGraph::input(const std::string& name, HostArray value) {
  const Tensor x = graph_.input(value.shape, name);
  named_[name] = x;
  values_.push_back(std::move(value));
  return x;
}

std::map<std::string, Tensor> CaseGraph::inputs(const std::string& prefix) {
  std::map<std::string, Tensor> out;
  for (const std::string& name : case_.names(prefix)) {
    if (!expects(name)) {
      out[name.substr(prefix.size())] = input(name);
    }
  }
  return out;
}

std::vector<Tensor> CaseGraph::parameters(
    const std::vector<nn::ParamSpec>& specs,
    const std::function<HostArray(const std::string&)>& tensor) {
  std::vector<Tensor> out;
  for (const nn::ParamSpec& spec : specs) {
    out.push_back(input("parameter " + spec.name, tensor(spec.name)));
  }
  return out;
}

bool CaseGraph::expects(const std::string& name) const {
  return std::ranges::any_of(case_.about().at("expected").items(),
                             [&](const io::Json& item) { return item.as_string() == name; });
}

void CaseGraph::expect(const std::string& name, Tensor value) {
  outputs_.emplace_back(name, value);
}

runtime::Program CaseGraph::program(Session& session, std::span<const Tensor> outputs) const {
  session.check_stop();
  runtime::ProgramOptions options = session.program_options();
  options.name = case_.name();
  // The reference rounded the result of every operation; the compiler would keep F32 between those
  // that it fuses.
  options.compile.flags["xla_allow_excess_precision"] = false;
  return runtime::Program::compile(session.client(), graph_, outputs, options);
}

std::vector<Row> CaseGraph::run(Session& session) {
  std::vector<Tensor> outputs;
  std::set<std::string> given;
  for (const auto& [name, value] : outputs_) {
    outputs.push_back(value);
    given.insert(name);
  }
  std::vector<pjrt::Buffer> buffers;
  for (const HostArray& value : values_) {
    buffers.push_back(session.client().to_device(value));
  }
  const auto results = program(session, outputs).run(std::span<const pjrt::Buffer>(buffers));
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const std::string& name = outputs_[i].first;
    HostArray actual = results[i].to_host();
    if (is_float(actual.shape.dtype)) {
      actual = convert(actual, DType::F32);
    }
    rows_.push_back(compare(case_.name(), name, actual, case_.tensor(name), limits_.of(name)));
  }
  for (const Row& row : rows_) {
    given.insert(row.tensor);
  }
  for (const io::Json& item : case_.about().at("expected").items()) {
    if (!given.contains(item.as_string())) {
      rows_.push_back(failed(case_.name(), item.as_string(), "nothing was computed for it"));
    }
  }
  return std::move(rows_);
}

}  // namespace kinema::verification
