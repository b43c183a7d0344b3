#include "kinema/config/part_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/folders.h"

namespace kinema::config {
namespace {

namespace fs = std::filesystem;

using Folders = std::span<const std::string_view>;
constexpr std::array<std::string_view, 1> kCheckpoints{"checkpoints"};
constexpr std::array<std::string_view, 3> kNetworks{"diffusion_models", "unet", "checkpoints"};
constexpr std::array<std::string_view, 3> kTexts{"text_encoders", "clip", "checkpoints"};
constexpr std::array<std::string_view, 2> kVaes{"vae", "checkpoints"};
constexpr std::array<std::string_view, 1> kLoras{"loras"};
constexpr std::array<std::string_view, 1> kControlNets{"controlnet"};

/// Moves the value of `from` to the key that it stands for.
void move_value(Loaded& loaded, const char* from, std::string& value, const char* to,
                std::string& target) {
  if (value.empty()) {
    return;
  }
  check(!loaded.is_set(to) || target.empty() || target == value,
        "[config] {} is {} and {} is {}: they are names of the same key\n  give only one of them",
        from, value, to, target);
  target = std::exchange(value, "");
  const auto given = loaded.origin.find(from);
  loaded.origin[to] = given == loaded.origin.end() ? from : given->second;
  loaded.origin.erase(from);
}

bool ends_like_weights(const fs::path& path) {
  constexpr std::array<std::string_view, 7> kEndings{".safetensors", ".gguf", ".sft", ".pth",
                                                     ".pt",          ".ckpt", ".bin"};
  return std::ranges::find(kEndings, path.extension().string()) != kEndings.end();
}

/// The file of this name in the folders; the name itself if it is a path here, or not found.
std::string found_in(const fs::path& models, Folders folders, const std::string& name) {
  std::error_code ignored;
  if (name.empty() || fs::exists(name, ignored)) {
    return name;
  }
  std::vector<std::string> found;
  for (const std::string_view folder : folders) {
    const fs::path top = models / folder;
    std::error_code error;
    for (auto each =
             fs::recursive_directory_iterator(top,
                                              fs::directory_options::skip_permission_denied |
                                                  fs::directory_options::follow_directory_symlink,
                                              error);
         !error && each != fs::recursive_directory_iterator(); each.increment(error)) {
      const fs::path inside = each->path().lexically_relative(top);
      fs::path without = inside;
      without.replace_extension();
      const bool fits = inside == name || inside.filename() == name || without == name ||
                        without.filename() == name;
      if (fits && ends_like_weights(inside) && each->is_regular_file(ignored)) {
        found.push_back(each->path().string());
      }
    }
    if (!found.empty()) {
      break;
    }
  }
  check(!found.empty() || !ends_like_weights(name),
        "[config] {} does not exist, and comfyui_folder {} has no such file in {}", name,
        models.string(), fmt::join(folders, ", "));
  std::ranges::sort(found);
  check(found.size() <= 1,
        "[config] comfyui_folder has several files `{}`: {}\n  give the path of one", name,
        fmt::join(found, ", "));
  return found.empty() ? name : found.front();
}

/// The same for `FILE[:scale][,FILE...]`.
std::string loras_in(const fs::path& models, const std::string& lora) {
  std::string out;
  for (size_t begin = 0; begin <= lora.size() && !lora.empty();) {
    const size_t end = std::min(lora.find(',', begin), lora.size());
    const std::string each = lora.substr(begin, end - begin);
    const size_t colon = each.rfind(':');
    out += out.empty() ? "" : ",";
    out += found_in(models, kLoras, each.substr(0, colon));
    out += colon == std::string::npos ? "" : each.substr(colon);
    begin = end + 1;
  }
  return out;
}

void search(const fs::path& models, ModelConfig& m) {
  std::error_code ignored;
  check(fs::is_directory(models, ignored), "[config] comfyui_folder {} {}", models.string(),
        not_a_folder(models));
  constexpr std::array<std::string_view, 8> kAll{
      "checkpoints", "diffusion_models", "unet",  "vae",
      "clip",        "text_encoders",    "loras", "controlnet"};
  check(std::ranges::any_of(
            kAll, [&](std::string_view each) { return fs::is_directory(models / each, ignored); }),
        "[config] comfyui_folder {} has none of the folders {}\n  give the folder `models` of "
        "ComfyUI",
        models.string(), fmt::join(kAll, ", "));
  std::string& pipeline = m.pretrained_model_name_or_path;
  pipeline = found_in(models, kCheckpoints, pipeline);
  std::string& network = m.wan_transformer_pretrained_model_name_or_path;
  network = found_in(models, kNetworks, network);
  m.wan_vae_pretrained_model_name_or_path =
      found_in(models, kVaes, m.wan_vae_pretrained_model_name_or_path);
  m.text_encoder_file = found_in(models, kTexts, m.text_encoder_file);
  m.text_encoder_2_file = found_in(models, kTexts, m.text_encoder_2_file);
  m.lora = loras_in(models, m.lora);
}

}  // namespace

std::string checkpoint_in(const std::string& comfyui_folder, const std::string& name) {
  return found_in(comfyui_folder, kCheckpoints, name);
}

void apply_part_files(Loaded& loaded) {
  ModelConfig& m = loaded.config.model;
  move_value(loaded, "vae_file", m.vae_file, "wan_vae_pretrained_model_name_or_path",
             m.wan_vae_pretrained_model_name_or_path);
  move_value(loaded, "transformer_file", m.transformer_file,
             "wan_transformer_pretrained_model_name_or_path",
             m.wan_transformer_pretrained_model_name_or_path);
  // With all models given, the default pipeline is not one of them.
  if (!loaded.is_set("pretrained_model_name_or_path") && !m.text_encoder_file.empty() &&
      !m.wan_transformer_pretrained_model_name_or_path.empty() &&
      !m.wan_vae_pretrained_model_name_or_path.empty()) {
    m.pretrained_model_name_or_path.clear();
  }
  if (!m.comfyui_folder.empty()) {
    search(m.comfyui_folder, m);
    GenerateConfig& g = loaded.config.generate;
    const fs::path models(m.comfyui_folder);
    for (std::string& net : loaded.config.generate.controlnet) {
      net = found_in(models, kControlNets, net);
    }
    std::error_code ignored;
    if (g.lora_folder.empty() && fs::is_directory(models / "loras", ignored)) {
      g.lora_folder = (models / "loras").string();
    }
    if (g.embeddings_folder.empty() && fs::is_directory(models / "embeddings", ignored)) {
      g.embeddings_folder = (models / "embeddings").string();
    }
  }
}

}  // namespace kinema::config
