#include "kinema/verification/run.h"

#include <algorithm>
#include <iterator>

#include "kinema/graph/emit.h"
#include "kinema/verification/arrays.h"
#include "kinema/weights/folder.h"

namespace kinema::verification {

const HostArray* find_value(const Values& values, std::string_view name) {
  const auto found = std::ranges::find(values, name, &Values::value_type::first);
  return found == values.end() ? nullptr : &found->second;
}

const HostArray& value_of(const Values& values, std::string_view name) {
  const HostArray* found = find_value(values, name);
  check(found != nullptr, "[verify] {} was not computed", name);
  return *found;
}

Values unstack(const nn::ParamSpec& spec, const HostArray& stacked) {
  Values out;
  for (int64_t i = 0; i < spec.count(); ++i) {
    out.emplace_back(spec.key(i), spec.layers == 0 ? stacked : part_of(stacked, i));
  }
  return out;
}

Session::Session(const pjrt::Client& device, const Options& asked)
    : client(device),
      options(asked),
      step_programs(std::make_shared<sample::StepPrograms>(device, asked.program)) {}

Run::Run(const Case& given, Session& shared, Limits limits, std::vector<Row>& rows)
    : c(given), session(shared), name_(given.name()), limits_(std::move(limits)), rows_(&rows) {
  // TF32 and bfloat16 products of accelerators exceed the limits by far.
  if (session.client.platform_name() != "cpu") {
    options.precision = Precision::HIGHEST;
  }
  options.scan_layers = session.options.scan_on;
}

std::vector<Run> Run::forms() const {
  std::vector<Run> out;
  for (const bool scan : {false, true}) {
    if (scan ? session.options.scan_on : session.options.scan_off) {
      out.push_back(with(scan ? " (scan)" : ""));
      out.back().options.scan_layers = scan;
    }
  }
  return out;
}

Run Run::with(const std::string& suffix) const {
  Run out = *this;
  out.name_ += suffix;
  return out;
}

Run Run::with(const LimitTable& limits) const {
  Run out = *this;
  out.limits_.put_first(limits);
  return out;
}

void Run::add(const std::string& tensor, const HostArray& value, const HostArray& expected) const {
  rows_->push_back(compare(name_, tensor, value, expected, limits_.of(tensor)));
}

void Run::add(const std::string& tensor, const HostArray& value) const {
  add(tensor, value, c.tensor(tensor));
}

void Run::add(const Values& values) const {
  for (const auto& [tensor, value] : values) {
    add(tensor, value);
  }
}

bool Run::expects(const std::string& tensor) const {
  return std::ranges::any_of(about("expected").items(),
                             [&](const io::Json& each) { return each.as_string() == tensor; });
}

void Run::add_expected(const Values& values) const {
  for (const std::string& tensor : strings(about("expected"))) {
    if (const HostArray* value = find_value(values, tensor)) {
      add(tensor, *value);
    } else {
      add(failed(name_, tensor, "it was not computed"));
    }
  }
}

void Run::add_known(const std::string& tensor, const HostArray& value) const {
  if (has(tensor)) {
    add(tensor, value);
  }
}

void Run::add_known(const Values& values) const {
  for (const auto& [tensor, value] : values) {
    add_known(tensor, value);
  }
}

void Run::add_worst(const std::string& tensor, std::span<const HostArray> values,
                    std::span<const HostArray> expected) const {
  std::vector<Row> each;
  for (size_t i = 0; i < values.size(); ++i) {
    each.push_back(compare(name_, tensor, values[i], expected[i], limits_.of(tensor)));
  }
  const auto bad = std::ranges::find(each, false, &Row::ok);
  add(bad != each.end() ? *bad : *std::ranges::max_element(each, {}, &Row::max_diff));
}

void Run::add_all(const std::string& prefix, const Values& values,
                  std::optional<Row> absent) const {
  for (const std::string& tensor : c.names(prefix)) {
    if (const HostArray* value = find_value(values, tensor)) {
      add(tensor, *value);
    } else if (absent) {
      absent->tensor = tensor;
      add(*absent);
    }
  }
}

void Run::add_absent(const std::string& prefix, const Values& values,
                     std::optional<Row> absent) const {
  for (const std::string& tensor : c.names(prefix)) {
    if (absent && find_value(values, tensor) == nullptr) {
      absent->tensor = tensor;
      add(*absent);
    }
  }
}

void Run::add(Row row) const {
  row.name = name_;
  rows_->push_back(std::move(row));
}

std::optional<Row> Run::fails() const {
  return options.scan_layers ? std::nullopt
                             : std::optional(failed("", "", "the model offers no such value"));
}

std::optional<Row> Run::is_unsupported() const {
  return options.scan_layers ? std::nullopt : std::optional(unsupported(""));
}

std::vector<Tensor> CaseGraph::parameters(std::span<const nn::ParamSpec> specs,
                                          std::vector<pjrt::Buffer> values) {
  std::vector<Tensor> params;
  for (const nn::ParamSpec& spec : specs) {
    params.push_back(graph_.input(spec.shape, spec.name));
  }
  std::ranges::move(values, std::back_inserter(arguments_));
  return params;
}

std::vector<Tensor> CaseGraph::parameters(std::span<const nn::ParamSpec> specs,
                                          const model_files::Checkpoint& files,
                                          std::span<const weights::Adapter> adapters) {
  return parameters(specs, weights::load_tensors(files, specs, run_.session.client, adapters));
}

Tensor CaseGraph::input(const HostArray& value, const std::string& name) {
  const Tensor added = graph_.input(value.shape, name);
  if (!name.empty()) {
    inputs_[name] = {.tensor = added, .argument = arguments_.size()};
  }
  arguments_.push_back(run_.session.client.to_device(value));
  return added;
}

Tensor CaseGraph::input(const std::string& name) {
  const auto known = inputs_.find(name);
  return known != inputs_.end() ? known->second.tensor : input(run_.tensor(name), name);
}

std::map<std::string, Tensor> CaseGraph::inputs(const std::string& prefix) {
  for (const std::string& name : run_.c.names(prefix)) {
    if (!run_.expects(name)) {
      input(name);
    }
  }
  std::map<std::string, Tensor> out;
  for (const auto& [name, known] : inputs_) {
    if (name.starts_with(prefix)) {
      out[name.substr(prefix.size())] = known.tensor;
    }
  }
  return out;
}

void CaseGraph::set(const std::string& name, const HostArray& value) {
  const auto& [tensor, argument] = inputs_.at(name);
  check(value.shape == tensor.shape(), "[verify] {} is {}, expected {} as in earlier steps", name,
        to_string(value.shape), to_string(tensor.shape()));
  arguments_[argument] = run_.session.client.to_device(value);
}

void CaseGraph::output(const std::string& name, Tensor value) {
  if (std::ranges::find(outputs_, name, &Output::name) == outputs_.end()) {
    outputs_.push_back({.name = name, .value = value, .spec = {}});
  }
}

void CaseGraph::outputs(const std::string& prefix, std::span<const nn::ParamSpec> specs,
                        std::span<const Tensor> values) {
  for (size_t i = 0; i < specs.size(); ++i) {
    outputs_.push_back({.name = prefix, .value = values[i], .spec = specs[i]});
  }
}

std::function<void(const std::string&, Tensor)> CaseGraph::tap(const std::string& prefix) {
  return [this, prefix](const std::string& name, Tensor value) {
    if (run_.has(prefix + name)) {
      output(prefix + name, value);
    }
  };
}

Values CaseGraph::run() {
  std::vector<Tensor> tensors;
  for (const Output& each : outputs_) {
    tensors.push_back(each.value);
  }
  Session& session = run_.session;
  const std::string text = emit(graph_, tensors, program.emit);
  auto compiled = session.programs.find(text);
  if (compiled == session.programs.end()) {
    if (session.options.check_stop) {
      session.options.check_stop();
    }
    compiled =
        session.programs
            .emplace(text, runtime::Program::compile(session.client, graph_, tensors, program))
            .first;
  }
  const auto results = compiled->second.run(std::span<const pjrt::Buffer>(arguments_));
  Values out;
  for (size_t i = 0; i < results.size(); ++i) {
    const auto& [name, value, spec] = outputs_[i];
    if (!spec) {
      out.emplace_back(name, results[i].to_host());
      continue;
    }
    for (auto& [key, layer] : unstack(*spec, results[i].to_host())) {
      out.emplace_back(name + key, std::move(layer));
    }
  }
  return out;
}

Values CaseGraph::step() {
  Values out = run();
  for (const auto& [name, value] : out) {
    if (inputs_.contains(name)) {
      set(name, value);
    }
  }
  return out;
}

}  // namespace kinema::verification
