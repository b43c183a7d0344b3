#include <algorithm>
#include <map>

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"
#include "kinema/networks/open.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/image_inputs.h"
#include "kinema/verification/limits.h"
#include "kinema/verification/session.h"
#include "kinema/weights/weights.h"

// Networks that make images: forward passes with their intermediate values, and gradients.
namespace kinema::verification {
namespace {

constexpr std::string_view kTap = "tap.";
constexpr std::string_view kNarrow = "bf16.";

/// A program's results by name.
using Values = std::map<std::string, HostArray>;

Values run(const Case& c, Session& session, const Graph& graph,
           const std::vector<std::pair<std::string, Tensor>>& outputs,
           std::span<const nn::ParamSpec> specs, const std::vector<HostArray>& arguments) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : outputs) {
    tensors.push_back(tensor);
  }
  std::vector<pjrt::Buffer> buffers = weights::load(c.model(), specs, session.client());
  for (const HostArray& argument : arguments) {
    buffers.push_back(session.client().to_device(argument));
  }
  const std::vector<pjrt::Buffer> results =
      session.program(graph, tensors, "image_network").run(std::span<const pjrt::Buffer>(buffers));
  Values values;
  for (size_t i = 0; i < outputs.size(); ++i) {
    values.emplace(outputs[i].first, results[i].to_host());
  }
  return values;
}

Values forward(const Case& c, const nn::ModelOptions& options, Session& session,
               const std::vector<std::string>& taps, const std::string& with) {
  const networks::Network network = networks::open(c.model());
  const auto specs = network->parameters(options);
  Graph graph;
  const std::vector<Tensor> params = parameter_inputs(graph, specs);
  const ImageInputs given(graph, c, network.sizes(), with);
  std::vector<std::pair<std::string, Tensor>> outputs;
  networks::Inputs inputs = given.inputs();
  inputs.tap = [&](const std::string& name, Tensor value) {
    if (std::ranges::find(taps, name) != taps.end()) {
      outputs.emplace_back(std::string(kTap) + name, value);
    }
  };
  const Tensor prediction = network->forward(params, options, inputs).prediction;
  outputs.emplace_back("output", given.as_written(prediction));
  return run(c, session, graph, outputs, specs, given.arguments());
}

std::vector<Row> gradients_of(const Case& c, const Session::Form& form, Session& session) {
  const networks::Network network = networks::open(c.model());
  const auto specs = network->parameters(form.options);
  const Limits limits(c.about(), Limits::Which::LONGEST);
  Graph graph;
  const std::vector<Tensor> params = parameter_inputs(graph, specs);
  const ImageInputs given(graph, c, network.sizes());
  std::vector<HostArray> arguments = given.arguments();
  arguments.push_back(c.tensor("target"));
  const Tensor target = graph.input(arguments.back().shape, "target");
  const Tensor prediction =
      given.as_written(network->forward(params, form.options, given.inputs()).prediction);
  const Tensor loss = mean(square(prediction - target));
  std::vector<Tensor> wrt = params;
  std::vector<std::string> inputs;
  for (const auto& [name, tensor] : given.named()) {
    if (c.has("grad_input." + name)) {
      wrt.push_back(tensor);
      inputs.push_back("grad_input." + name);
    }
  }
  const std::vector<Tensor> grads = gradients(loss, wrt);
  Tensor squares;
  std::vector<std::pair<std::string, Tensor>> outputs{{"prediction", prediction}, {"loss", loss}};
  for (size_t i = 0; i < grads.size(); ++i) {
    const bool is_parameter = i < specs.size();
    outputs.emplace_back(is_parameter ? specs[i].name : inputs[i - specs.size()], grads[i]);
    if (is_parameter) {
      const Tensor here = sum(square(grads[i]));
      squares = squares ? squares + here : here;
    }
  }
  outputs.emplace_back("grad_norm", sqrt(squares));
  const Values values = run(c, session, graph, outputs, specs, arguments);
  std::vector<Row> rows;
  const auto add = [&](const std::string& tensor, const HostArray& value) {
    rows.push_back(
        compare(c.name() + form.suffix, tensor, value, c.tensor(tensor), limits.of(tensor)));
  };
  for (const char* name : {"prediction", "loss", "grad_norm"}) {
    add(name, values.at(name));
  }
  for (const nn::ParamSpec& spec : specs) {
    for (const auto& [key, value] : unstack(spec, values.at(spec.name))) {
      add("grad." + key, value);
    }
  }
  for (const std::string& name : inputs) {
    add(name, values.at(name));
  }
  return rows;
}

}  // namespace

std::vector<Row> image_forward_rows(const Case& c, Session& session) {
  const Limits limits(c.about(), Limits::Which::LONGEST);
  std::vector<std::string> taps;
  for (const std::string& name : c.names(kTap)) {
    taps.push_back(name.substr(kTap.size()));
  }
  std::vector<Row> rows;
  for (const Session::Form& form : session.forms()) {
    const std::string name = c.name() + form.suffix;
    const Values values = forward(c, form.options, session, taps, "");
    rows.push_back(
        compare(name, "output", values.at("output"), c.tensor("output"), limits.of("output")));
    for (const std::string& tensor : c.names(kTap)) {
      if (const auto value = values.find(tensor); value != values.end()) {
        rows.push_back(compare(name, tensor, value->second, c.tensor(tensor), limits.of(tensor)));
      } else if (!form.options.scan_layers) {
        // A loop over the blocks offers nothing inside them; one after the other must offer all.
        rows.push_back(failed(name, tensor, "the network offers no such value"));
      }
    }
    const std::string narrow = std::string(kNarrow) + "output";
    if (c.has(narrow)) {
      nn::ModelOptions options = form.options;
      options.weights_dtype = DType::BF16;
      options.activations_dtype = DType::BF16;
      const Values half = forward(c, options, session, {}, std::string(kNarrow));
      rows.push_back(compare(name, narrow, half.at("output"), c.tensor(narrow), limits.of(narrow)));
    }
  }
  return rows;
}

std::vector<Row> image_gradient_rows(const Case& c, Session& session) {
  std::vector<Row> rows;
  for (const Session::Form& form : session.forms()) {
    std::ranges::move(gradients_of(c, form, session), std::back_inserter(rows));
  }
  return rows;
}

}  // namespace kinema::verification
