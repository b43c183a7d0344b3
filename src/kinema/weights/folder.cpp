#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/model_folder.h"
#include "kinema/models/vae/coder.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/config.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/umt5.h"
#include "kinema/weights/vae_config.h"
#include "kinema/weights/weights.h"

namespace kinema::weights {
namespace {

/// Some checkpoints carry it, no implementation reads it.
bool is_ignored(const std::string& key) { return key.ends_with(".attn2.norm_added_q.weight"); }

std::string join(const std::vector<std::string>& problems) {
  if (problems.size() == 1) {
    return problems[0];
  }
  return fmt::format("{} ({} more tensor{} not as expected)", problems[0], problems.size() - 1,
                     problems.size() == 2 ? " is" : "s are");
}

}  // namespace

void check_tensors(const Checkpoint& checkpoint, std::span<const nn::ParamSpec> specs,
                   const std::function<bool(const std::string& key)>& ignored) {
  std::vector<std::string> problems;
  std::set<std::string> expected;
  for (const nn::ParamSpec& spec : specs) {
    if (spec.is_low_rank()) {
      continue;
    }
    const Shape wanted = spec.layer_shape();
    for (int64_t layer = 0; layer < spec.count(); ++layer) {
      const std::string key = spec.key(layer);
      expected.insert(key);
      const io::TensorView* found = checkpoint.find(key);
      const std::string name = checkpoint.name_in_file(key);
      if (found == nullptr) {
        problems.push_back(fmt::format("`{}` {} is missing", name, to_string(wanted.dims)));
      } else if (found->shape.dims != wanted.dims) {
        problems.push_back(fmt::format("`{}` is {} but the config wants {}", name,
                                       to_string(found->shape), to_string(wanted.dims)));
      } else if (!is_float(found->shape.dtype)) {
        problems.push_back(
            fmt::format("`{}` is {} but must be floating-point", name, to_string(found->shape)));
      }
    }
  }
  for (const auto& [key, view] : checkpoint.tensors()) {
    if (!expected.contains(key) && !is_ignored(key) && !(ignored && ignored(key))) {
      problems.push_back(fmt::format("`{}` {} is not part of the model that the config describes",
                                     view->name, to_string(view->shape)));
    }
  }
  if (!problems.empty()) {
    fail("[weights] {}: {}", checkpoint.path(), join(problems));
  }
}

void check_folder(const std::filesystem::path& path, std::span<const nn::ParamSpec> specs) {
  check_tensors(Checkpoint::open(path), specs);
}

namespace {

int64_t parameter_count(std::span<const nn::ParamSpec> specs) {
  int64_t count = 0;
  for (const nn::ParamSpec& spec : specs) {
    count += spec.shape.elements();
  }
  return count;
}

/// `_class_name` of diffusers, or the first of transformers' `architectures`.
std::string class_of(const io::Json& config) {
  for (const char* key : {"_class_name", "architectures"}) {
    const io::Json* name = config.find(key);
    if (name != nullptr && name->is_array() && !name->items().empty()) {
      name = name->items().data();
    }
    if (name != nullptr && name->is_string()) {
      return name->as_string();
    }
  }
  return "";
}

std::string check_clip(const io::ModelFolder& folder) {
  const clip::VisionConfig config = parse_clip_config(folder.config());
  check_clip_tensors(folder, config);
  return fmt::format("CLIPVisionModel: {} layers, width {}", config.num_hidden_layers,
                     config.hidden_size);
}

std::string check_vae(const io::ModelFolder& folder) {
  const vae::Config config = parse_vae_config(folder.config());
  const std::vector<nn::ParamSpec> specs = vae::parameters(config, {});
  check_tensors(folder, specs);
  return fmt::format("AutoencoderKLWan: {} latent channels, {} x {} pixels a cell, {} parameters",
                     config.z_dim, config.spatial(), config.spatial(), parameter_count(specs));
}

std::string check_umt5(const io::ModelFolder& folder) {
  const umt5::EncoderConfig config = parse_umt5_config(folder.config());
  check_umt5_tensors(folder, config);
  return fmt::format("UMT5EncoderModel: {} layers, width {}, {} tokens", config.num_layers,
                     config.d_model, config.vocab_size);
}

std::string check_transformer(const Checkpoint& checkpoint) {
  const wan::TransformerConfig config = transformer_config(checkpoint);
  const std::vector<nn::ParamSpec> specs = wan::parameters(config, {});
  check_tensors(checkpoint, specs);
  return fmt::format("{}: {} layers, width {}, {} parameters",
                     checkpoint.naming() == Naming::ORIGINAL ? "original Wan transformer"
                                                             : "WanTransformer3DModel",
                     config.num_layers, config.dim(), parameter_count(specs));
}

/// A file: a LoRA, or a transformer's checkpoint.
std::string check_file(const std::filesystem::path& path) {
  const Checkpoint checkpoint = Checkpoint::open(path);
  if (is_transformer(checkpoint)) {
    return check_transformer(checkpoint);
  }
  const Lora lora = Lora::open(path);
  check(lora.unknown().empty(), "[lora] {}: {} keys are none of a Wan transformer, `{}` for one",
        path.string(), lora.unknown().size(), lora.unknown().empty() ? "" : lora.unknown()[0]);
  return "LoRA: " + lora.summary();
}

std::string check_model(const std::filesystem::path& path) {
  const io::ModelFolder folder = io::ModelFolder::open(path);
  if (is_vae(folder.config())) {
    return check_vae(folder);
  }
  if (is_clip_vision(folder.config())) {
    return check_clip(folder);
  }
  if (is_umt5(folder.config())) {
    return check_umt5(folder);
  }
  check(is_transformer(Checkpoint(folder)),
        "[weights] {}: the config's class is `{}` but must be {}", folder.path(),
        class_of(folder.config()), "`WanTransformer3DModel` or another model of a Wan pipeline");
  return check_transformer(Checkpoint::open(path));
}

}  // namespace

FileKind file_kind(const std::filesystem::path& path) {
  const Checkpoint checkpoint = Checkpoint::open(path);
  if (is_transformer(checkpoint)) {
    return FileKind::TRANSFORMER;
  }
  const bool lora = std::ranges::any_of(checkpoint.tensors(), [](const Checkpoint::Entry& entry) {
    return read_lora_key(entry.view->name).has_value();
  });
  return lora ? FileKind::LORA : FileKind::OTHER;
}

std::string check_path(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) {
    return check_file(path);
  }
  if (!std::filesystem::exists(path / "model_index.json")) {
    return check_model(path);
  }
  const io::Json index = io::Json::read(path / "model_index.json");
  std::string models;
  for (const auto& [name, value] : index.members()) {
    const bool is_model = value.is_array() && value.items().size() == 2 &&
                          !value.items()[0].is_null() && !name.starts_with('_');
    if (is_model && std::filesystem::exists(path / name / "config.json")) {
      check_model(path / name);
      models += (models.empty() ? "" : ", ") + name;
    }
  }
  check(!models.empty(), "[weights] {}: model_index.json names no model that is there",
        path.string());
  return "pipeline: " + models;
}

}  // namespace kinema::weights
