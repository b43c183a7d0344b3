#include <charconv>
#include <memory>
#include <optional>
#include <string>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/models/clip/text.h"
#include "kinema/models/kl_autoencoder/coder.h"
#include "kinema/models/kl_autoencoder/config_file.h"
#include "kinema/networks/open.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/image_inputs.h"
#include "kinema/verification/limits.h"
#include "kinema/verification/session.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/embedding.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/kl_config.h"
#include "kinema/weights/lora.h"

// Files of pipelines that make images in other programs' names: LoRA, and several models in one.
namespace kinema::verification {
namespace {

namespace fs = std::filesystem;
namespace kl = kl_autoencoder;
using weights::Adapter;
using weights::Checkpoint;

/// A network's output with adapters merged, or beside its weights.
HostArray output_of(const Case& c, Session& session, const networks::Network& network,
                    const Checkpoint& files, const nn::ModelOptions& options,
                    std::span<const Adapter> adapters) {
  const std::vector<nn::ParamSpec> specs = network->parameters(options);
  Graph graph;
  const std::vector<Tensor> params = parameter_inputs(graph, specs);
  const ImageInputs given(graph, c, network.sizes());
  const std::vector<Tensor> outputs{
      given.as_written(network->forward(params, options, given.inputs()).prediction)};
  std::vector<pjrt::Buffer> buffers =
      weights::load_tensors(files, specs, session.client(), adapters);
  for (const HostArray& argument : given.arguments()) {
    buffers.push_back(session.client().to_device(argument));
  }
  return session.program(graph, outputs, "image_network")
      .run(std::span<const pjrt::Buffer>(buffers))[0]
      .to_host();
}

/// What a text encoder makes of the case's ids.
struct TextStates {
  HostArray penultimate;
  HostArray text_embeds;  // without bytes where there is no projection
};

TextStates text_states(const Case& c, const Session::Form& form, Session& session,
                       const Checkpoint& files, const clip::TextConfig& config,
                       std::span<const Adapter> adapters) {
  const std::string prefix = weights::clip_text_prefix(files);
  const clip::TextOptions options{.precision = form.options.precision,
                                  .scan_layers = form.options.scan_layers};
  const std::vector<nn::ParamSpec> specs = clip::text_parameters(config, prefix, options);
  Graph graph;
  const std::vector<Tensor> params = parameter_inputs(graph, specs);
  std::vector<pjrt::Buffer> buffers =
      weights::load_tensors(files, specs, session.client(), adapters);
  const HostArray ids = c.tensor("ids");
  const auto input = [&](const HostArray& value) {
    buffers.push_back(session.client().to_device(value));
    return graph.input(value.shape);
  };
  const clip::TextInputs inputs{
      .embeddings = input(convert(weights::embedding_rows(weights::clip_text_embedding(files),
                                                          ids.shape.dims, ids.as<int64_t>()),
                                  DType::F32)),
      .ids = input(ids)};
  const clip::TextOutputs out = clip::text_states(params, config, prefix, options, inputs);
  std::vector<Tensor> outputs{out.hidden};
  if (config.projection_dim > 0) {
    outputs.push_back(out.text_embeds);
  }
  const auto results =
      session.program(graph, outputs, "text").run(std::span<const pjrt::Buffer>(buffers));
  return {.penultimate = results[0].to_host(),
          .text_embeds = results.size() > 1 ? results[1].to_host() : HostArray()};
}

HostArray decoded(const HostArray& latents, Session& session, const Checkpoint& files,
                  const kl::AutoencoderConfig& config) {
  const std::vector<nn::ParamSpec> specs = kl::decoder_parameters(config, {});
  Graph graph;
  const std::vector<Tensor> params = parameter_inputs(graph, specs);
  std::vector<pjrt::Buffer> buffers = weights::load_tensors(files, specs, session.client());
  buffers.push_back(session.client().to_device(latents));
  const Tensor z = graph.input(latents.shape);
  const std::vector<Tensor> outputs{kl::decode(params, config,
                                               {.precision = session.model_options().precision},
                                               z * (1.0 / config.scaling_factor))};
  return session.program(graph, outputs, "autoencoder")
      .run(std::span<const pjrt::Buffer>(buffers))[0]
      .to_host();
}

/// `NAME.scale0.5.output`, or `base.output`.
struct LoraTensor {
  std::string tensor;
  std::string file;  // empty: without
  double scale = 0;
  std::string what;  // `output`, `penultimate_2`
};

std::optional<LoraTensor> read_name(const std::string& tensor) {
  const size_t dot = tensor.rfind('.');
  if (dot == std::string::npos) {
    return std::nullopt;  // an input
  }
  LoraTensor out{.tensor = tensor, .what = tensor.substr(dot + 1)};
  const std::string name = tensor.substr(0, dot);
  const size_t at = name.rfind(".scale");
  if (at == std::string::npos) {
    return out;
  }
  out.file = name.substr(0, at);
  const char* end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + at + 6, end, out.scale);
  return read.ec == std::errc() && read.ptr == end ? std::optional(out) : std::nullopt;
}

/// The case's models: `about` names a pipeline, or the network alone.
fs::path part_of(const Case& c, std::string_view part) { return c.model() / part; }

fs::path network_of(const Case& c) {
  std::error_code ignored;
  return fs::exists(c.model() / "config.json", ignored) ? c.model() : c.model() / "unet";
}

/// One output with the files of one name.
HostArray lora_value(const Case& c, const LoraTensor& tensor, const Session::Form& form,
                     bool applied, Session& session) {
  std::vector<Adapter> adapters;
  if (!tensor.file.empty()) {
    const fs::path path = c.folder() / "lora" / (tensor.file + ".safetensors");
    adapters = {{.lora = std::make_shared<const weights::Lora>(weights::Lora::open(path)),
                 .scale = tensor.scale}};
  }
  if (tensor.what == "output") {
    const Checkpoint files = Checkpoint::open(network_of(c));
    const networks::Network network = networks::open(files);
    nn::ModelOptions options = form.options;
    if (applied) {
      options.low_ranks = weights::low_ranks(adapters, network->parameters(options));
    }
    return output_of(c, session, network, files, options, adapters);
  }
  const bool second = tensor.what != "penultimate";
  const Checkpoint files =
      Checkpoint::open(part_of(c, second ? "text_encoder_2" : "text_encoder"),
                       second ? weights::kTextEncoder2 : weights::kTextEncoder);
  const auto text = weights::for_text(
      adapters, second ? weights::LoraMember::TEXT_ENCODER_2 : weights::LoraMember::TEXT_ENCODER);
  TextStates states = text_states(c, form, session, files, weights::clip_text_config(files), text);
  return tensor.what == "text_embeds" ? std::move(states.text_embeds)
                                      : std::move(states.penultimate);
}

/// A row, or the reason why there is no value.
template <typename Value>
void add_row(std::vector<Row>& rows, const Case& c, const std::string& name,
             const std::string& tensor, Value value) {
  const Limits limits(c.about(), Limits::Which::LONGEST);
  try {
    rows.push_back(compare(name, tensor, value(), c.tensor(tensor), limits.of(tensor)));
  } catch (const Error& error) {
    rows.push_back(failed(name, tensor, error.what()));
  }
}

}  // namespace

std::vector<Row> image_lora_rows(const Case& c, Session& session) {
  std::vector<Row> rows;
  for (const std::string& name : c.names("")) {
    const std::optional<LoraTensor> tensor = read_name(name);
    if (!tensor) {
      continue;
    }
    for (const Session::Form& form : session.forms()) {
      for (const bool applied : {false, true}) {
        // Text encoders have no room for products of their own.
        if (applied && (tensor->file.empty() || tensor->what != "output")) {
          continue;
        }
        add_row(rows, c, c.name() + form.suffix + (applied ? " (applied)" : ""), name,
                [&] { return lora_value(c, *tensor, form, applied, session); });
      }
    }
  }
  return rows;
}

std::vector<Row> flux_single_rows(const Case& c, Session& session) {
  const io::Json config = io::Json::read(c.folder() / c.about().at("config").as_string());
  const networks::Network network = networks::from_config(config);
  const fs::path file = c.folder() / c.about().at("file").as_string();
  std::vector<Row> rows;
  for (const Session::Form& form : session.forms()) {
    add_row(rows, c, c.name() + form.suffix, "output", [&] {
      const Checkpoint files = Checkpoint::open(file);
      weights::check_tensors(files, network->parameters({}));
      return output_of(c, session, network, files, form.options, {});
    });
  }
  // The autoencoder's file is that of flux_dev to the bit.
  const Checkpoint folder = Checkpoint::open(c.folder() / "flux_dev" / "vae", weights::kVae);
  const Checkpoint alone =
      Checkpoint::open(file.parent_path() / "flux_ae.safetensors", weights::kVae);
  Row row{.name = c.name(), .tensor = "flux_ae"};
  for (const auto& [key, view] : folder.tensors()) {
    const io::TensorView* found = alone.find(key);
    if (found == nullptr || found->shape != view->shape ||
        found->copy().bytes != view->copy().bytes) {
      row.message += (row.message.empty() ? "differs in " : ", ") + key;
    }
  }
  row.ok = row.message.empty() && alone.tensors().size() == folder.tensors().size();
  rows.push_back(row);
  return rows;
}

std::vector<Row> sdxl_single_rows(const Case& c, Session& session) {
  const fs::path folder = c.folder() / c.about().at("config").as_string();
  const fs::path file = c.folder() / c.about().at("file").as_string();
  const auto config = [&](const char* part) {
    return io::Json::read(folder / part / "config.json");
  };
  std::vector<Row> rows;
  for (const Session::Form& form : session.forms()) {
    const std::string name = c.name() + form.suffix;
    add_row(rows, c, name, "output", [&] {
      const networks::Network network = networks::from_config(config("unet"));
      const Checkpoint files = Checkpoint::open(file);
      weights::check_tensors(files, network->parameters({}));
      return output_of(c, session, network, files, form.options, {});
    });
    for (const bool second : {false, true}) {
      const auto states = [&] {
        const auto sizes =
            weights::parse_clip_text_config(config(second ? "text_encoder_2" : "text_encoder"));
        const Checkpoint files =
            Checkpoint::open(file, second ? weights::kTextEncoder2 : weights::kTextEncoder);
        weights::check_clip_text_tensors(files, sizes);
        return text_states(c, form, session, files, sizes, {});
      };
      add_row(rows, c, name, second ? "penultimate_2" : "penultimate",
              [&] { return states().penultimate; });
      if (second) {
        add_row(rows, c, name, "text_embeds_2", [&] { return states().text_embeds; });
      }
    }
  }
  add_row(rows, c, c.name(), "decoded", [&] {
    const kl::AutoencoderConfig sizes = kl::parse_config(config("vae"));
    const Checkpoint files = Checkpoint::open(file, weights::kVae);
    weights::check_kl_tensors(files, sizes);
    return decoded(c.tensor("latents"), session, files, sizes);
  });
  return rows;
}

}  // namespace kinema::verification
