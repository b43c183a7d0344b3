#include "kinema/networks/check_path.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/model_folder.h"
#include "kinema/model_files/family.h"
#include "kinema/model_files/single_file.h"
#include "kinema/model_files/vae_config.h"
#include "kinema/models/kl_autoencoder/config_file.h"
#include "kinema/models/vae/coder.h"
#include "kinema/networks/controlled.h"
#include "kinema/networks/open.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/harmless_parts.h"
#include "kinema/weights/kl_config.h"
#include "kinema/weights/lora.h"
#include "kinema/weights/model_kind.h"
#include "kinema/weights/qwen3.h"
#include "kinema/weights/t5.h"
#include "kinema/weights/weights.h"

namespace kinema::networks {
namespace {

int64_t parameter_count(std::span<const nn::ParamSpec> specs) {
  int64_t count = 0;
  for (const nn::ParamSpec& spec : specs) {
    count += spec.shape.elements();
  }
  return count;
}

std::string check_clip(const io::ModelFolder& folder) {
  const clip::VisionConfig config = weights::parse_clip_config(folder.config());
  weights::check_clip_tensors(folder, config);
  return fmt::format("CLIPVisionModel: {} layers, width {}", config.num_hidden_layers,
                     config.hidden_size);
}

std::string check_vae(const model_files::Checkpoint& files) {
  const vae::Config config = model_files::vae_config(files);
  const std::vector<nn::ParamSpec> specs = vae::parameters(config, {});
  weights::check_tensors(files, specs);
  return fmt::format("AutoencoderKLWan: {} latent channels, {} x {} pixels a cell, {} parameters",
                     config.z_dim, config.spatial(), config.spatial(), parameter_count(specs));
}

std::string check_t5(const model_files::Checkpoint& files) {
  const t5::EncoderConfig config = weights::t5_config(files);
  weights::check_t5_tensors(files, config);
  return fmt::format("{}: {} layers, width {}, {} tokens", weights::t5_class(config),
                     config.num_layers, config.d_model, config.vocab_size);
}

std::string check_qwen3(const model_files::Checkpoint& files) {
  const qwen3::EncoderConfig config = weights::qwen3_config(files);
  weights::check_qwen3_tensors(files, config);
  return fmt::format("Qwen3Model: {} layers, width {}, {} tokens", config.num_hidden_layers,
                     config.hidden_size, config.vocab_size);
}

std::string check_transformer(const model_files::Checkpoint& checkpoint) {
  const model_files::Family& family = *model_files::find_family(checkpoint);
  const Network network = open(checkpoint);
  const std::vector<nn::ParamSpec> specs = network->parameters({});
  weights::check_tensors(checkpoint, specs);
  return fmt::format("{}: {} layers, width {}, {} parameters",
                     checkpoint.naming() == model_files::Naming::ORIGINAL
                         ? fmt::format("original {} transformer", family.name)
                         : std::string(family.transformer_class),
                     network.sizes().num_layers, network.sizes().width, parameter_count(specs));
}

std::string check_image_vae(const model_files::Checkpoint& files) {
  const kl_autoencoder::AutoencoderConfig config = weights::kl_config(files);
  weights::check_kl_tensors(files, config);
  return fmt::format("AutoencoderKL: {} latent channels, {} x {} pixels a cell",
                     config.latent_channels, config.spatial(), config.spatial());
}

std::string check_clip_text(const model_files::Checkpoint& files) {
  const clip::TextConfig config = weights::clip_text_config(files);
  weights::check_clip_text_tensors(files, config);
  return fmt::format("CLIPTextModel{}: {} layers, width {}, {} tokens",
                     config.projection_dim > 0 ? "WithProjection" : "", config.num_hidden_layers,
                     config.hidden_size, config.vocab_size);
}

/// A model of a pipeline other than its network, in a file.
std::string check_part(const std::filesystem::path& path, std::string_view part) {
  const model_files::Checkpoint files = model_files::Checkpoint::open(path, part);
  files.check_finite();
  if (part == model_files::kVae) {
    return model_files::is_vae_file(path) ? check_vae(files) : check_image_vae(files);
  }
  return weights::is_t5_encoder(files)      ? check_t5(files)
         : weights::is_qwen3_encoder(files) ? check_qwen3(files)
                                            : check_clip_text(files);
}

/// The other models in a network's file.
std::string check_beside(const std::filesystem::path& path) {
  std::string out;
  for (const std::string_view part : model_files::parts_in(path)) {
    out += "; " + check_part(path, part);
  }
  return out;
}

/// A file without a network: an autoencoder or a text encoder.
std::string check_other(const std::filesystem::path& path) {
  const auto found = weights::detect_kind(path);
  const bool is_text = found && found->kind->is(weights::Role::PART);
  const std::vector<std::string_view> parts = model_files::parts_in(path);
  const bool is_second = !parts.empty() && parts.front() == model_files::kTextEncoder2;
  return check_part(path, !is_text    ? model_files::kVae
                          : is_second ? model_files::kTextEncoder2
                                      : model_files::kTextEncoder);
}

bool is_control(const std::filesystem::path& path) {
  const auto found = weights::detect_kind(path);
  return found && found->kind->is(weights::Role::CONTROL);
}

/// A ControlNet's file or folder.
std::string check_control(const std::filesystem::path& path) {
  const model_files::Checkpoint files = model_files::Checkpoint::open(path);
  files.check_finite();
  if (model_files::is_control_module(files)) {
    return "Z-Image ControlNet, " + check_control_module(files);
  }
  const ControlNet network = open_control(path);
  weights::check_tensors(files, network->parameters({}));
  return network->types() > 0
             ? fmt::format("union ControlNet of {} kinds of pictures", network->types())
             : "ControlNet";
}

/// A file: a LoRA, or a transformer's checkpoint.
std::string check_file(const std::filesystem::path& path) {
  const model_files::Checkpoint checkpoint = model_files::Checkpoint::open(path);
  checkpoint.check_finite();
  if (is_control(path)) {
    return check_control(path);
  }
  if (model_files::is_transformer(checkpoint)) {
    return check_transformer(checkpoint) + check_beside(path);
  }
  if (weights::file_kind(path) == weights::FileKind::OTHER) {
    return check_other(path);
  }
  return check_lora(path);
}

std::string check_model(const std::filesystem::path& path) {
  using weights::Role;
  if (is_control(path)) {
    return check_control(path);
  }
  weights::check_role(path, {Role::NETWORK, Role::VAE, Role::PART});
  const io::ModelFolder folder = io::ModelFolder::open(path);
  model_files::Checkpoint(folder).check_finite();
  if (model_files::is_vae(folder.config())) {
    return check_vae(folder);
  }
  if (weights::is_clip_vision(folder.config())) {
    return check_clip(folder);
  }
  if (weights::is_clip_text(folder.config())) {
    return check_clip_text(folder);
  }
  if (weights::is_t5(folder.config())) {
    return check_t5(folder);
  }
  if (weights::is_qwen3(folder.config())) {
    return check_qwen3(model_files::Checkpoint::open(path, model_files::kTextEncoder));
  }
  if (model_files::class_of_model(folder.config()) == kl_autoencoder::kClassName) {
    return check_image_vae(model_files::Checkpoint::open(path, model_files::kVae));
  }
  const std::string name = model_files::class_of_model(folder.config());
  check(model_files::is_transformer(model_files::Checkpoint(folder)),
        "[weights] {}: config.json names {}, expected {}", folder.path(),
        name.empty() ? "no class (`_class_name` or `architectures`)" : "the class `" + name + "`",
        model_files::transformer_classes() + ", or that of another model of a pipeline");
  return check_transformer(model_files::Checkpoint::open(path));
}

/// Throws an Error if a pipeline's autoencoder has other latents than its network.
void check_latents(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::path vae = path / model_files::kVae;
  if (!std::filesystem::exists(vae / "config.json", ignored)) {
    return;
  }
  const io::Json config = io::Json::read(vae / "config.json");
  const int64_t made =
      model_files::is_vae(config)
          ? model_files::parse_vae_config(config).z_dim
          : weights::kl_config(model_files::Checkpoint::open(vae, model_files::kVae))
                .latent_channels;
  for (const model_files::Family& family : model_files::families()) {
    if (std::filesystem::exists(path / family.part / "config.json", ignored)) {
      const int64_t taken = open(path / family.part)->sizes().out_channels;
      check(made == taken,
            "[weights] {}: vae makes latents of {} channels, {} takes {}: they belong to different "
            "models",
            path.string(), made, family.part, taken);
    }
  }
}

/// Throws an Error for a change of a bias that the layer does not have (PEFT's `lora_bias`);
/// loading would fail too.
void check_biases(const weights::Lora& lora) {
  using weights::LoraMember;
  const model_files::Family* family = lora.family();
  if (family == nullptr) {
    return;
  }
  std::set<std::string> names;  // parameter names of the released network
  for (const char* release : {"Wan2.1-T2V-1.3B", "FLUX.1-dev", "SDXL", "stable-diffusion-v1-5"}) {
    const io::Json config = *released_config(release);
    if (model_files::family_of_config(config) == family) {
      for (const nn::ParamSpec& spec : from_config(config)->parameters({.scan_layers = false})) {
        names.insert(spec.name);
      }
    }
  }
  const auto look_at = [&](const weights::Lora::Targets& targets, auto lacks_bias) {
    for (const auto& [module, target] : targets) {
      const io::TensorView* bias = target.up_bias != nullptr ? target.up_bias : target.diff_bias;
      check(bias == nullptr || !lacks_bias(module),
            "[lora] {}: `{}` changes the bias of `{}`, which has none in {}", lora.path(),
            bias == nullptr ? "" : bias->name, module, family->name);
    }
  };
  for (const int64_t expert : {0, 1}) {
    look_at(lora.targets(expert), [&](const std::string& module) {
      return names.contains(module + ".weight") && !names.contains(module + ".bias");
    });
  }
  // T5 has no biases.
  const auto always = [](const std::string&) { return true; };
  if (family->text_encoder_class == "UMT5EncoderModel") {
    look_at(lora.targets(LoraMember::TEXT_ENCODER), always);
  }
  if (family->text_encoder_2_class == "T5EncoderModel") {
    look_at(lora.targets(LoraMember::TEXT_ENCODER_2), always);
  }
}

}  // namespace

std::string check_lora(const std::filesystem::path& path) {
  const weights::Lora lora = weights::Lora::open(path);
  check_biases(lora);
  std::vector<std::string> unknown = lora.unknown();
  std::erase_if(unknown,
                [](const std::string& key) { return !weights::harmless_kind(key).empty(); });
  check(unknown.empty(), "[lora] {}: {} keys name an unknown module, for example `{}`",
        path.string(), unknown.size(), unknown.empty() ? "" : unknown[0]);
  lora.check_finite();
  return "LoRA: " + lora.summary();
}

std::vector<std::string> parts_without_index(const std::filesystem::path& path) {
  std::vector<std::string> parts;
  std::error_code ignored;
  const auto add = [&](std::string_view part) {
    if (std::filesystem::exists(path / part / "config.json", ignored) &&
        std::ranges::find(parts, part) == parts.end()) {
      parts.emplace_back(part);
    }
  };
  for (const model_files::Family& family : model_files::families()) {
    add(family.part);
  }
  if (!parts.empty()) {
    add("transformer_2");
    for (const std::string_view part :
         {model_files::kTextEncoder, model_files::kTextEncoder2, model_files::kVae}) {
      add(part);
    }
  }
  return parts;
}

std::string check_path(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) {
    return check_file(path);
  }
  std::string models;
  if (!std::filesystem::exists(path / "model_index.json", ignored)) {
    for (const std::string& name : parts_without_index(path)) {
      check_model(path / name);
      models += (models.empty() ? "" : ", ") + name;
    }
    check_latents(path);
    return models.empty() ? check_model(path) : "pipeline without a model_index.json: " + models;
  }
  const io::Json index = io::Json::read(path / "model_index.json");
  for (const auto& [name, value] : index.members()) {
    const bool is_model = value.is_array() && value.items().size() == 2 &&
                          !value.items()[0].is_null() && !name.starts_with('_');
    // Folders without a config.json that are not models: schedulers, tokenizers, image processors.
    // Stable Diffusion's safety checker is not read.
    static const std::set<std::string> kWithout{"scheduler",         "tokenizer",
                                                "tokenizer_2",       "image_processor",
                                                "feature_extractor", "safety_checker"};
    if (is_model && !kWithout.contains(name)) {
      check(std::filesystem::exists(path / name / "config.json"),
            "[weights] {} has no {}/config.json, which its model_index.json requires",
            path.string(), name);
      check_model(path / name);
      models += (models.empty() ? "" : ", ") + name;
    }
  }
  check(!models.empty(), "[weights] {}: model_index.json names no model that exists",
        path.string());
  check_latents(path);
  return "pipeline: " + models;
}

}  // namespace kinema::networks
