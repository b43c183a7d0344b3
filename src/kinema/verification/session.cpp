#include "kinema/verification/session.h"

#include <cstring>
#include <utility>

#include "kinema/encoders/umt5_encoder.h"
#include "kinema/encoders/wan_autoencoder.h"
#include "kinema/graph/emit.h"

namespace kinema::verification {

Session::Session(const pjrt::Client& client, const Options& options)
    : client_(client),
      options_(options),
      step_programs_(std::make_shared<sample::StepPrograms>(client, options.program)) {}

nn::ModelOptions Session::model_options() const {
  nn::ModelOptions model;
  // TF32 and bfloat16 products of accelerators are far outside the limits.
  if (client_.platform_name() != "cpu") {
    model.precision = Precision::HIGHEST;
  }
  model.scan_layers = options_.scan_on;
  return model;
}

std::vector<Session::Form> Session::forms() const {
  std::vector<Form> forms;
  for (const bool scan : {false, true}) {
    if (scan ? options_.scan_on : options_.scan_off) {
      forms.push_back({.options = model_options(), .suffix = scan ? " (scan)" : ""});
      forms.back().options.scan_layers = scan;
    }
  }
  return forms;
}

const runtime::Program& Session::program(const Graph& graph, std::span<const Tensor> outputs,
                                         const std::string& name) {
  runtime::ProgramOptions options = options_.program;
  options.name = name;
  const std::string text = emit(graph, outputs, options.emit);
  const auto known = programs_.find(text);
  if (known != programs_.end()) {
    return known->second;
  }
  check_stop();
  return programs_.emplace(text, runtime::Program::compile(client_, graph, outputs, options))
      .first->second;
}

const encoders::TextEncoder& Session::text_encoder(const std::filesystem::path& pipeline,
                                                   int64_t max_sequence_length, bool batched) {
  const std::string key =
      pipeline.string() + " " + std::to_string(max_sequence_length) + (batched ? " batched" : "");
  std::unique_ptr<encoders::TextEncoder>& encoder = text_encoders_[key];
  if (encoder == nullptr) {
    encoders::T5Settings settings{.model = pipeline / "text_encoder",
                                  .tokenizer = pipeline / "tokenizer",
                                  .max_sequence_length = max_sequence_length,
                                  .batched = batched,
                                  .program = options_.program};
    settings.options.precision = model_options().precision;
    settings.options.scan_layers = options_.scan_on;
    encoder = encoders::umt5_text_encoder(client_, std::move(settings));
  }
  return *encoder;
}

const encoders::Autoencoder& Session::autoencoder(const std::filesystem::path& pipeline) {
  std::unique_ptr<encoders::Autoencoder>& vae = autoencoders_[pipeline.string()];
  if (vae == nullptr) {
    encoders::WanAutoencoderOptions options{.program = options_.program};
    options.model.precision = model_options().precision;
    vae = std::make_unique<encoders::WanAutoencoder>(client_, pipeline / "vae", options);
  }
  return *vae;
}

std::vector<Tensor> parameter_inputs(Graph& graph, std::span<const nn::ParamSpec> specs) {
  std::vector<Tensor> params;
  params.reserve(specs.size());
  for (const nn::ParamSpec& spec : specs) {
    params.push_back(graph.input(spec.shape, spec.name));
  }
  return params;
}

std::vector<std::pair<std::string, HostArray>> unstack(const nn::ParamSpec& spec,
                                                       const HostArray& stacked) {
  if (spec.layers == 0) {
    return {{spec.name, stacked}};
  }
  Shape shape = stacked.shape;
  shape.dims.erase(shape.dims.begin());
  const size_t at = spec.name.find("{}");
  std::vector<std::pair<std::string, HostArray>> out;
  for (int64_t i = 0; i < spec.layers; ++i) {
    HostArray layer(shape);
    std::memcpy(layer.bytes.data(), stacked.bytes.data() + i * shape.bytes(), layer.bytes.size());
    std::string name = spec.name;
    name.replace(at, 2, std::to_string(i));
    out.emplace_back(std::move(name), std::move(layer));
  }
  return out;
}

}  // namespace kinema::verification
