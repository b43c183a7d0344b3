// Networks: predictions and gradients, with adapters, and files with other programs' names.
#include <algorithm>
#include <charconv>
#include <optional>

#include "kinema/graph/ops.h"
#include "kinema/models/kl_autoencoder/coder.h"
#include "kinema/models/kl_autoencoder/config_file.h"
#include "kinema/networks/open.h"
#include "kinema/verification/arrays.h"
#include "kinema/verification/network.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/kl_config.h"

namespace kinema::verification {
namespace {

namespace fs = std::filesystem;
namespace kl = kl_autoencoder;
using model_files::Checkpoint;
using weights::Adapter;

/// `NAME.scale0.5.output`, or `base.output`.
struct AdaptedTensor {
  std::string file;  // empty: without an adapter
  double scale = 0;
  std::string what;  // `output`, `penultimate_2`
};

std::optional<AdaptedTensor> read_adapted_name(const std::string& tensor) {
  const size_t dot = tensor.rfind('.');
  if (dot == std::string::npos) {
    return std::nullopt;  // an input
  }
  AdaptedTensor out{.what = tensor.substr(dot + 1)};
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

/// The LoRA file `lora/NAME.safetensors` of the case's set; empty without a name.
std::vector<Adapter> adapter_named(const Run& run, const std::string& name, double scale = 1.0) {
  if (name.empty()) {
    return {};
  }
  const fs::path path = run.c.folder() / "lora" / (name + ".safetensors");
  return {
      {.lora = std::make_shared<const weights::Lora>(weights::Lora::open(path)), .scale = scale}};
}

/// The folder of the case's network: `about` names it, or its pipeline.
fs::path network_folder(const Case& c) {
  std::error_code ignored;
  return fs::exists(c.model() / "unet", ignored) ? c.model() / "unet" : c.model();
}

/// A network's `output` with adapters merged, or applied separately (`applied`).
HostArray adapted_output(const Run& run, std::span<const Adapter> adapters, bool applied) {
  const Checkpoint files = Checkpoint::open(network_folder(run.c));
  const networks::Network network = networks::open(files);
  nn::ModelOptions options = run.options;
  if (applied) {
    options.low_ranks = weights::low_ranks(adapters, network->parameters(options));
  }
  return NetworkGraph(run, network, options, files, adapters).predicted();
}

/// One result of a text encoder, such as `penultimate_2`, with adapters merged.
HostArray adapted_text(const Run& run, const std::string& what, std::span<const Adapter> adapters) {
  const bool second = what != "penultimate";
  const Checkpoint files =
      Checkpoint::open(run.c.model() / (second ? "text_encoder_2" : "text_encoder"),
                       second ? model_files::kTextEncoder2 : model_files::kTextEncoder);
  const auto text = weights::for_text(
      adapters, second ? weights::LoraMember::TEXT_ENCODER_2 : weights::LoraMember::TEXT_ENCODER);
  const Values states = clip_states(run, files, weights::clip_text_config(files), text);
  return value_of(states, what == "text_embeds" ? what : "penultimate");
}

/// `output` of a configuration's network, with the parameters of a file with other names.
void predict_file(const Run& run, const fs::path& config, const fs::path& file) {
  run.attempt("output", [&] {
    const networks::Network network = networks::from_config(io::Json::read(config));
    const Checkpoint files = Checkpoint::open(file);
    run.add("output", NetworkGraph(run, network, run.options, files).predicted());
  });
}

/// `tensor`: the case's `latents`, decoded by the autoencoder in a file.
void decode_by_file(const Run& run, const fs::path& config, const fs::path& file,
                    const std::string& tensor = "decoded") {
  const kl::AutoencoderConfig sizes = kl::parse_config(io::Json::read(config));
  const Checkpoint files = Checkpoint::open(file, model_files::kVae);
  weights::check_kl_tensors(files, sizes);
  CaseGraph graph(run);
  const std::vector<Tensor> params = graph.parameters(kl::decoder_parameters(sizes, {}), files);
  Tensor latents = graph.input("latents") * (1.0 / sizes.scaling_factor);
  latents = sizes.shift_factor == 0.0 ? latents : latents + sizes.shift_factor;
  graph.output(tensor, kl::decode(params, sizes, {.precision = run.options.precision}, latents));
  run.add(graph.run());
}

void predict(const Run& run) {
  NetworkGraph graph(run, run.options);
  const Values values = graph.predict();
  run.add("output", value_of(values, "output"));
  run.add_all("tap.", values,
              graph.network.sizes().makes_images ? run.fails() : run.is_unsupported());
  if (run.has("bf16.output")) {
    NetworkGraph narrow(run, in_bf16(run.options));
    run.add("bf16.output", narrow.predicted("bf16.", /*all=*/false));
  }
}

/// Images of two sizes: each `output.N` is what the sample `x.N` gives alone.
void predict_sizes(const Run& run) {
  for (const std::string& output : run.c.names("output.")) {
    const std::string number = output.substr(output.find('.') + 1);
    const auto row = std::stoll(number);
    NetworkGraph graph(run, run.options);
    const auto part = [&](const char* name) { return slice(graph.input(name), Axis(0), row, 1); };
    const HostArray lengths = run.tensor("cap_lengths");
    const int64_t tokens = lengths.as<int64_t>()[static_cast<size_t>(row)];
    NetworkInputs given{.negated = true};
    given.inputs.latents = expand_dims(expand_dims(graph.input("x." + number), Axis(0)), Axis(2));
    given.inputs.timestep = (1.0 - part("t")) * 1000.0;
    given.inputs.text = slice(part("cap_feats"), Axis(1), 0, tokens);
    graph.output(output, graph.network_output(given));
    run.add(graph.run());
  }
}

/// A ControlNet laid over the transformer of the case: `output`, and the hints `tap.hintN`.
void predict_controlled(const Run& run) {
  const Checkpoint files =
      Checkpoint::open(model_files::laid_over(run.path("transformer"), run.c.model()));
  NetworkGraph graph(run, networks::open(files), run.options, files);
  NetworkInputs given = graph.given();
  const int64_t layers = graph.network.sizes().control_layers;
  given.inputs.control = expand_dims(graph.input("control"), Axis(2));
  given.inputs.control_scale = graph.input(numbers(std::vector<float>(
      static_cast<size_t>(layers), static_cast<float>(run.about("scale").as_number()))));
  given.inputs.tap = graph.tap("tap.");
  graph.output("output", graph.network_output(given));
  run.add(graph.run());
}

void predict_variants(const Run& run) {
  for (const std::string& tensor : run.c.names("")) {
    const size_t dot = tensor.find('.');
    if (dot == std::string::npos || tensor.starts_with("text")) {
      continue;  // an input, or a text encoder's tensor
    }
    const std::string folder = "transformer_" + tensor.substr(0, dot);
    for (const Run& form : run.forms()) {
      form.attempt(tensor, [&] {
        const Checkpoint files = Checkpoint::open(run.c.folder() / "variants" / folder);
        const bool narrow = tensor.ends_with("_in_bf16");
        const nn::ModelOptions options = narrow ? in_bf16(form.options) : form.options;
        form.add(tensor, NetworkGraph(form, options, files).predicted());
      });
    }
  }
  encode_umt5_variants(run);
}

/// A network's outputs with adapters; for a pipeline also those of its text encoders.
void predict_with_adapters(const Run& run, bool with_text) {
  for (const std::string& name : run.c.names("")) {
    const std::optional<AdaptedTensor> tensor = read_adapted_name(name);
    if (!tensor || (tensor->what != "output" && !with_text)) {
      continue;
    }
    for (const Run& form : run.forms()) {
      for (const bool applied : {false, true}) {
        // Text encoders only support merged adapters.
        if (applied && (tensor->file.empty() || tensor->what != "output")) {
          continue;
        }
        const Run here = form.with(applied ? " (applied)" : "");
        here.attempt(name, [&] {
          const std::vector<Adapter> file = adapter_named(run, tensor->file, tensor->scale);
          here.add(name, tensor->what == "output" ? adapted_output(here, file, applied)
                                                  : adapted_text(here, tensor->what, file));
        });
      }
    }
  }
}

void predict_with_formats(const Run& run) {
  for (const std::string& file : strings(run.about("files"))) {
    for (const bool applied : {false, true}) {
      const Run here = run.with(" " + file + (applied ? " (applied)" : ""));
      here.attempt("output", [&] {
        here.add("output", adapted_output(here, adapter_named(run, file), applied));
      });
    }
  }
}

/// `NAME.output` of each of the case's `files`: networks in files of original names.
void predict_wan_files(const Run& run) {
  for (const auto& member : run.about("files").members()) {
    const std::string& name = member.first;
    const fs::path folder = run.c.folder() / member.second.at("config").as_string();
    const fs::path file = run.c.folder() / "single" / (name + ".safetensors");
    const io::Json config = io::Json::read(folder / "config.json");
    const std::string tensor = name + ".output";
    if (model_files::family_of_config(config) == nullptr) {
      run.add(unsupported("", tensor));
      continue;
    }
    run.attempt(tensor, [&] {
      const Checkpoint files = Checkpoint::open(file);
      run.add(tensor, NetworkGraph(run, networks::from_config(config), run.options, files)
                          .predicted(name + "."));
    });
  }
}

void predict_flux_file(const Run& run) {
  const fs::path file = run.path("file");
  for (const Run& form : run.forms()) {
    predict_file(form, run.path("config"), file);
  }
  // The autoencoder's file has the same bits as flux_dev's.
  const Checkpoint folder =
      Checkpoint::open(run.c.folder() / "flux_dev" / "vae", model_files::kVae);
  const Checkpoint alone =
      Checkpoint::open(file.parent_path() / "flux_ae.safetensors", model_files::kVae);
  Row row{.tensor = "flux_ae"};
  for (const auto& [key, view] : folder.tensors()) {
    const io::TensorView* found = alone.find(key);
    if (found == nullptr || found->shape != view->shape ||
        found->copy().bytes != view->copy().bytes) {
      row.message += (row.message.empty() ? "differs in " : ", ") + key;
    }
  }
  row.ok = row.message.empty() && alone.tensors().size() == folder.tensors().size();
  run.add(row);
}

/// Each file of Z-Image: `NAME.output` of networks; states and pixels of the other models.
void predict_zimage_files(const Run& run) {
  const fs::path folder = run.c.folder() / "single";
  for (const std::string& tensor : run.c.names("zimage_")) {
    const std::string name = tensor.substr(0, tensor.find('.'));
    const bool turbo = name.starts_with("zimage_turbo_");
    fs::path file = folder / (name + ".safetensors");
    std::error_code ignored;
    file = fs::exists(file, ignored) ? file : folder / (name + ".gguf");
    for (const Run& form : run.forms()) {
      form.attempt(tensor, [&] {
        const fs::path config =
            run.c.folder() / (turbo ? "zimage_turbo" : "zimage") / "transformer" / "config.json";
        const networks::Network network = networks::from_config(io::Json::read(config));
        form.add(tensor,
                 NetworkGraph(form, network, form.options, Checkpoint::open(file)).predicted());
      });
    }
  }
  run.attempt("ae.decoded", [&] {
    decode_by_file(run, run.c.folder() / "zimage" / "vae" / "config.json",
                   folder / "ae.safetensors", "ae.decoded");
  });
  run.attempt("qwen3.prompt_embeds", [&] {
    encode_qwen3_file(run, folder / "qwen3.safetensors",
                      run.c.folder() / "zimage" / "text_encoder" / "config.json");
  });
}

void predict_sdxl_file(const Run& run) {
  const fs::path folder = run.path("config");
  const fs::path file = run.path("file");
  struct State {
    const char* tensor;
    std::string_view part;
    const char* name;
  };
  for (const Run& form : run.forms()) {
    predict_file(form, folder / "unet" / "config.json", file);
    for (const State& each : {State{"penultimate", model_files::kTextEncoder, "penultimate"},
                              State{"penultimate_2", model_files::kTextEncoder2, "penultimate"},
                              State{"text_embeds_2", model_files::kTextEncoder2, "text_embeds"}}) {
      form.attempt(each.tensor, [&] {
        const auto sizes =
            weights::parse_clip_text_config(io::Json::read(folder / each.part / "config.json"));
        const Checkpoint files = Checkpoint::open(file, each.part);
        weights::check_clip_text_tensors(files, sizes);
        form.add(each.tensor, value_of(clip_states(form, files, sizes), each.name));
      });
    }
  }
  run.attempt("decoded", [&] { decode_by_file(run, folder / "vae" / "config.json", file); });
}

void differentiate_flow(const Run& run) {
  NetworkGraph graph(run, run.options);
  const FlowLoss step = graph.flow_loss("");
  graph.output("noisy_latents", step.flow.noisy);
  graph.output("target", step.flow.target);
  Named inputs{{run.has("grad_input.noisy_latents") ? "grad_input.noisy_latents"
                                                    : "grad_input.hidden_states",
                step.flow.noisy},
               {"grad_input.encoder_hidden_states", step.text}};
  if (step.control) {
    inputs.emplace_back("grad_input.control_hidden_states", step.control);
  }
  graph.output_gradients("", step.prediction, step.loss, inputs);
  run.add(graph.run());
}

void differentiate_image_network(const Run& run) {
  NetworkGraph graph(run, run.options);
  const NetworkInputs given = graph.given();
  const Tensor prediction = graph.prediction(given);
  Named inputs;
  for (const auto& [name, tensor] : given.named) {
    if (run.has("grad_input." + name)) {
      inputs.emplace_back("grad_input." + name, tensor);
    }
  }
  const Tensor loss = mean(square(prediction - graph.input("target")));
  graph.output_gradients("", prediction, loss, inputs);
  run.add(graph.run());
}

}  // namespace

std::vector<Kind> network_kinds() {
  using enum Kind::Forms;
  return {
      {"transformer transformer_edge transformer_i2v transformer_ti2v flf2v_transformer "
       "vace_transformer vace_transformer_edge wan21_fun_control_transformer "
       "wan21_fun_camera_transformer wan22_fun_control_transformer animate_transformer",
       predict,
       EACH,
       {{"*", kOutput}}},
      {"transformer_grad vace_transformer_grad",
       differentiate_flow,
       EACH,
       {{"loss", kScalar}, {"grad_norm", kScalar}, {"grad*", kThousandth}, {"*", kOutput}}},
      {"flux_transformer flux_transformer_schnell flux_transformer_edge sdxl_unet sdxl_unet_odd "
       "sdxl_inpaint9_unet sd15_unet sd21_unet",
       predict, EACH},
      {"zimage_transformer_sizes", predict_sizes, EACH},
      {"zimage_controlnet*", predict_controlled, EACH},
      {"zimage_transformer zimage_transformer_turbo zimage_transformer_full "
       "zimage_transformer_edge",
       predict, EACH},
      {"flux_transformer_grad sdxl_unet_grad sd15_unet_grad zimage_transformer_grad "
       "animate_transformer_grad",
       differentiate_image_network, EACH},
      // bfloat16 has 8 bits: the reference's own result is off by half a percent of the largest
      // value.
      {"variants",
       predict_variants,
       ONE,
       {{"text_*", kStates}, {"*_in_bf16", {.of_largest = 2e-2}}, {"*", kOutput}}},
      {"lora",
       [](const Run& run) { predict_with_adapters(run, /*with_text=*/false); },
       ONE,
       {{"*", kOutput}}},
      {"lora_formats", predict_with_formats, ONE, {{"*", kOutput}}},
      {"flux_lora sdxl_lora",
       [](const Run& run) { predict_with_adapters(run, /*with_text=*/true); }},
      {"flux_single", predict_flux_file},
      {"wan_single", predict_wan_files},
      {"zimage_lora", [](const Run& run) { predict_with_adapters(run, /*with_text=*/false); }},
      {"zimage_single", predict_zimage_files},
      {"sdxl_single", predict_sdxl_file},
  };
}

}  // namespace kinema::verification
