#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"
#include "kinema/model_files/single_file.h"
#include "kinema/weights/adapter.h"
#include "kinema/weights/lora.h"

namespace kinema::weights {
namespace {

namespace fs = std::filesystem;
using io::Json;

/// The modules that a scale of 1 needs an alpha of their own for, by PEFT's alpha / r.
Json alphas_of_whole(const AdapterConfig& config, std::span<const nn::ParamSpec> factors) {
  constexpr std::string_view kWholeW2 = ".lokr_w2";
  Json out = Json::object();
  for (const nn::ParamSpec& spec : factors) {
    for (int64_t layer = 0; layer < spec.count() && spec.name.ends_with(kWholeW2); ++layer) {
      const std::string key = spec.key(layer);
      out.set(key.substr(0, key.size() - kWholeW2.size()), config.rank);
    }
  }
  return out;
}

/// `modules`: by the pipeline's part.
std::string diffusers_metadata(const AdapterConfig& config,
                               const std::map<std::string, Json>& modules) {
  Json about = Json::object();
  for (const auto& [part, own] : modules) {
    const std::string at = part + ".";
    about.set(at + "r", config.rank)
        .set(at + "lora_alpha", config.alpha)
        .set(at + "use_rslora", config.use_rslora)
        .set(at + "lora_bias", false)
        .set(at + "rank_pattern", Json::object())
        .set(at + "alpha_pattern", Json::object())
        .set(at + "target_modules", own);
    if (config.modules.kind == nn::AdapterKind::DORA) {
      about.set(at + "use_dora", true);
    }
  }
  return about.dump(-1);
}

/// The text encoder of a module or parameter that a network runs inside it, by its name; else
/// empty.
std::string_view text_part(std::string_view name) {
  for (const std::string_view part : {model_files::kTextEncoder, model_files::kTextEncoder2}) {
    if (name.starts_with(part) && name.substr(part.size()).starts_with('.')) {
      return part;
    }
  }
  return {};
}

// Files of newer transformers versions omit this prefix of CLIP's text model, adapters have it;
// PEFT's names of modules, which match the ends of names, do without.
constexpr std::string_view kTextModel = "text_model.";

std::string_view without_text_model(std::string_view name) {
  return name.starts_with(kTextModel) ? name.substr(kTextModel.size()) : name;
}

std::string key_in_pipeline(const std::string& name, const AdapterConfig& config) {
  const std::string_view part = text_part(name);
  return part.empty()
             ? config.part + "." + name
             : fmt::format("{}.{}{}", part, kTextModel,
                           without_text_model(std::string_view(name).substr(part.size() + 1)));
}

Json lycoris_config(const AdapterConfig& config, const Json& modules,
                    std::span<const nn::ParamSpec> factors) {
  const bool is_loha = config.modules.kind == nn::AdapterKind::LOHA;
  Json out = Json::object();
  out.set("peft_type", is_loha ? "LOHA" : "LOKR")
      .set("task_type", Json())
      .set("base_model_name_or_path", config.base_model)
      .set("inference_mode", true)
      .set("r", config.rank)
      .set("alpha", config.alpha)
      .set("rank_dropout", 0)
      .set("module_dropout", 0)
      .set("rank_pattern", Json::object())
      .set("alpha_pattern", alphas_of_whole(config, factors))
      .set("target_modules", modules);
  if (!is_loha) {
    out.set("decompose_both", false).set("decompose_factor", config.modules.kronecker_factor);
  }
  return out;
}

Json peft_config(const AdapterConfig& config, const Json& modules) {
  Json out = Json::object();
  out.set("peft_type", "LORA")
      .set("task_type", Json())
      .set("base_model_name_or_path", config.base_model)
      .set("inference_mode", true)
      .set("r", config.rank)
      .set("lora_alpha", config.alpha)
      .set("lora_dropout", config.dropout)
      .set("use_rslora", config.use_rslora)
      .set("use_dora", config.modules.kind == nn::AdapterKind::DORA)
      .set("bias", "none")
      .set("fan_in_fan_out", false)
      .set("rank_pattern", Json::object())
      .set("alpha_pattern", Json::object())
      .set("target_modules", modules);
  return out;
}

}  // namespace

void save_adapter(const fs::path& folder, const AdapterConfig& config,
                  std::span<const nn::ParamSpec> factors,
                  const std::function<HostArray(size_t i)>& to_host) {
  // A stack is fetched once, because its layers are consecutive.
  struct Fetched {
    size_t number = SIZE_MAX;
    HostArray array;
  };
  const auto fetched = std::make_shared<Fetched>();
  std::vector<io::TensorEntry> entries;
  for (size_t i = 0; i < factors.size(); ++i) {
    const Shape shape = factors[i].layer_shape();
    for (int64_t layer = 0; layer < factors[i].count(); ++layer) {
      entries.push_back(
          {key_in_pipeline(factors[i].key(layer), config), shape,
           [fetched, i, layer, shape, &to_host](const io::ByteSink& sink) {
             if (fetched->number != i) {
               fetched->array = to_host(i);
               fetched->number = i;
             }
             const auto size = static_cast<size_t>(shape.bytes());
             sink(std::span(fetched->array.bytes).subspan(static_cast<size_t>(layer) * size, size));
           }});
    }
  }
  std::map<std::string, Json> by_part;  // modules of the pipeline's models
  by_part[config.part] = Json::array();
  for (const std::string& module : adapter_module_names(factors)) {
    const std::string_view inner = text_part(module);
    Json& list = by_part[inner.empty() ? config.part : std::string(inner)];
    list = list.is_array() ? std::move(list) : Json::array();
    list.append(inner.empty() ? module
                              : std::string(without_text_model(
                                    std::string_view(module).substr(inner.size() + 1))));
  }
  const Json modules = by_part.at(config.part);
  io::make_folder(folder);
  std::map<std::string, std::string> metadata{
      {"format", "pt"}, {"lora_adapter_metadata", diffusers_metadata(config, by_part)}};
  if (!config.expert.empty()) {
    metadata.emplace(kExpertKey, config.expert);
  }
  io::write_safetensors(folder / kLoraFile, entries, metadata);
  const bool is_lycoris =
      config.modules.kind == nn::AdapterKind::LOHA || config.modules.kind == nn::AdapterKind::LOKR;
  const Json peft =
      is_lycoris ? lycoris_config(config, modules, factors) : peft_config(config, modules);
  io::write_file(folder / kPeftConfig, peft.dump() + "\n");
}

}  // namespace kinema::weights
