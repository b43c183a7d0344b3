#include "kinema/verification/forward.h"

#include <algorithm>

#include "kinema/networks/open.h"
#include "kinema/verification/compare.h"
#include "kinema/weights/weights.h"

namespace kinema::verification {
namespace {

constexpr std::string_view kTap = "tap.";

}  // namespace

ForwardInputs ForwardInputs::of(const Case& c) {
  ForwardInputs inputs{.hidden_states = c.tensor("hidden_states"),
                       .timestep = c.tensor("timestep"),
                       .encoder_hidden_states = c.tensor("encoder_hidden_states")};
  if (c.has("encoder_hidden_states_image")) {
    inputs.encoder_hidden_states_image = c.tensor("encoder_hidden_states_image");
  }
  return inputs;
}

std::map<std::string, HostArray> run_forward(const std::filesystem::path& model,
                                             const ForwardInputs& inputs,
                                             const std::vector<std::string>& taps,
                                             const nn::ModelOptions& options, Session& session,
                                             std::span<const weights::Adapter> adapters) {
  const networks::Network network = networks::open(model);
  const auto specs = network->parameters(options);

  Graph graph;
  const std::vector<Tensor> params = parameter_inputs(graph, specs);
  std::vector<HostArray> arguments;
  const auto input = [&](const HostArray& array, const char* name) {
    arguments.push_back(array);
    return graph.input(array.shape, name);
  };
  std::vector<std::string> names{"output"};
  std::vector<Tensor> outputs(1);
  networks::Inputs in;
  in.latents = input(inputs.hidden_states, "hidden_states");
  in.timestep = input(inputs.timestep, "timestep");
  in.text = input(inputs.encoder_hidden_states, "encoder_hidden_states");
  if (!inputs.encoder_hidden_states_image.bytes.empty()) {
    in.image = input(inputs.encoder_hidden_states_image, "encoder_hidden_states_image");
  }
  in.tap = [&](const std::string& name, Tensor value) {
    if (std::ranges::find(taps, name) != taps.end()) {
      names.push_back(name);
      outputs.push_back(value);
    }
  };
  outputs[0] = network->forward(params, options, in).prediction;

  const runtime::Program& program = session.program(graph, outputs, "transformer");
  std::vector<pjrt::Buffer> buffers = weights::load(model, specs, session.client(), adapters);
  for (const HostArray& argument : arguments) {
    buffers.push_back(session.client().to_device(argument));
  }
  std::map<std::string, HostArray> out;
  const std::vector<pjrt::Buffer> results = program.run(std::span<const pjrt::Buffer>(buffers));
  for (size_t i = 0; i < results.size(); ++i) {
    out.emplace(names[i], results[i].to_host());
  }
  return out;
}

std::vector<Row> forward_rows(const Case& c, Session& session) {
  const ForwardInputs inputs = ForwardInputs::of(c);
  std::vector<std::string> taps;
  for (const std::string& name : c.names(kTap)) {
    taps.push_back(name.substr(kTap.size()));
  }
  const Limit limit{.absolute = kForwardAbsolute, .relative = kForwardRelative};
  std::vector<Row> rows;
  for (const Session::Form& form : session.forms()) {
    const std::string name = c.name() + form.suffix;
    const auto values = run_forward(c.model(), inputs, taps, form.options, session);
    rows.push_back(compare(name, "output", values.at("output"), c.tensor("output"), limit));
    for (const std::string& tap : taps) {
      const std::string tensor = std::string(kTap) + tap;
      if (const auto value = values.find(tap); value != values.end()) {
        rows.push_back(compare(name, tensor, value->second, c.tensor(tensor), limit));
      } else if (!form.options.scan_layers) {
        // A loop over the blocks offers nothing inside them; one after the other must offer all.
        rows.push_back(unsupported(name, tensor));
      }
    }
  }
  return rows;
}

std::vector<Row> variant_rows(const Case& c, Session& session) {
  const ForwardInputs inputs = ForwardInputs::of(c);
  const Limit exact{.absolute = kForwardAbsolute, .relative = kForwardRelative};
  // bfloat16 keeps 8 bits: the reference's own bf16 run is half a percent of the largest value off.
  const Limit loose{.of_largest = 2e-2};
  std::vector<Row> rows;
  for (const std::string& tensor : c.names("")) {
    const size_t dot = tensor.find('.');
    if (dot == std::string::npos) {
      continue;  // an input
    }
    const std::string variant = tensor.substr(0, dot);
    const std::string what = tensor.substr(dot + 1);
    if (variant.starts_with("text")) {
      continue;
    }
    const bool bf16 = what.ends_with("_in_bf16");
    for (const Session::Form& form : session.forms()) {
      nn::ModelOptions options = form.options;
      if (bf16) {
        options.weights_dtype = DType::BF16;
        options.activations_dtype = DType::BF16;
      }
      const std::string name = c.name() + form.suffix;
      try {
        const auto values = run_forward(c.folder() / "variants" / ("transformer_" + variant),
                                        inputs, {}, options, session);
        rows.push_back(
            compare(name, tensor, values.at("output"), c.tensor(tensor), bf16 ? loose : exact));
      } catch (const Error& error) {
        rows.push_back(failed(name, tensor, error.what()));
      }
    }
  }
  std::ranges::move(text_variant_rows(c, session), std::back_inserter(rows));
  return rows;
}

}  // namespace kinema::verification
