#include "kinema/weights/adapter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"
#include "kinema/nn/init.h"
#include "kinema/weights/module_names.h"
#include "kinema/weights/weights.h"

namespace kinema::weights {
namespace {

namespace fs = std::filesystem;
using io::Json;

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kDown = ".lora_A.weight";
constexpr const char* kTargets = "lora_target_modules";

const std::vector<std::string>& attention_modules() {
  static const std::vector<std::string> names{
      "to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"};
  return names;
}

const std::vector<std::string>& ffn_modules() {
  static const std::vector<std::string> names{"ffn.net.0.proj",        "ffn.net.2",
                                              "ff.net.0.proj",         "ff.net.2",
                                              "ff_context.net.0.proj", "ff_context.net.2"};
  return names;
}

/// A linear layer, or all layers of a stack.
struct Linear {
  std::string name;  // as in LowRanks
  std::vector<std::string> modules;
};

std::vector<Linear> linear_layers(std::span<const nn::ParamSpec> specs) {
  std::vector<Linear> out;
  const auto module_of = [](const std::string& key) {
    return key.substr(0, key.size() - kWeight.size());
  };
  for (const nn::ParamSpec& spec : specs) {
    if (!spec.name.ends_with(kWeight) || spec.layer_shape().rank() != 2 || spec.is_low_rank()) {
      continue;
    }
    Linear linear{.name = module_of(spec.name), .modules = {}};
    for (int64_t layer = 0; layer < spec.count(); ++layer) {
      linear.modules.push_back(module_of(spec.key(layer)));
    }
    out.push_back(std::move(linear));
  }
  return out;
}

/// Modules that are not linear layers: norms, convolutions, and containers.
std::vector<std::string> other_modules(std::span<const nn::ParamSpec> specs,
                                       std::span<const std::string> linear) {
  std::set<std::string> out;
  for (const nn::ParamSpec& spec : specs) {
    for (int64_t layer = 0; layer < spec.count(); ++layer) {
      std::string name = spec.key(layer);
      for (size_t dot = name.rfind('.'); dot != std::string::npos; dot = name.rfind('.')) {
        name.erase(dot);
        out.insert(name);
      }
    }
  }
  for (const std::string& name : linear) {
    out.erase(name);
  }
  return {out.begin(), out.end()};
}

/// The targets with presets expanded: presets mean layers of the blocks, not those of Wan's image
/// embedder, whose feed-forward network has the same names as Flux's. `all` is not a preset here.
std::vector<std::string> written_out(std::span<const std::string> targets,
                                     std::span<const std::string> modules) {
  std::vector<std::string> out;
  const auto add = [&](const std::vector<std::string>& names) {
    std::ranges::copy_if(modules, std::back_inserter(out), [&](const std::string& module) {
      return module.find("blocks.") != std::string::npos &&
             std::ranges::any_of(
                 names, [&](const std::string& name) { return module.ends_with("." + name); });
    });
  };
  for (const std::string& target : targets) {
    if (target == "attention" || target == "attention+ffn") {
      add(attention_modules());
      if (target == "attention+ffn") {
        add(ffn_modules());
      }
    } else if (target != "all") {
      out.push_back(target);
    }
  }
  return out;
}

/// One adapter tensor in host memory. Layers without an adapter are initialised by their init: if
/// both factors were zeros, neither would get a gradient.
HostArray addition(const Adapters& adapters, const nn::ParamSpec& spec, uint64_t seed) {
  HostArray all(Shape{DType::F32, spec.shape.dims});
  const Shape shape = spec.layer_shape();
  const auto size = static_cast<size_t>(shape.elements());
  for (int64_t layer = 0; layer < spec.count(); ++layer) {
    const std::string key = spec.key(layer);
    const auto values = all.as<float>().subspan(static_cast<size_t>(layer) * size, size);
    if (adapters.change(key)) {
      adapters.add_to(key, values);
    } else {
      nn::initial_values(spec.init, shape.dims, key, seed, values);
    }
  }
  return spec.shape.dtype == DType::F32 ? std::move(all) : convert(all, spec.shape.dtype);
}

std::vector<nn::ParamSpec> those(std::span<const nn::ParamSpec> specs, bool low_rank) {
  std::vector<nn::ParamSpec> out;
  std::ranges::copy_if(specs, std::back_inserter(out),
                       [&](const nn::ParamSpec& spec) { return spec.is_low_rank() == low_rank; });
  return out;
}

std::string diffusers_metadata(const AdapterConfig& config, const Json& modules) {
  const std::string at = config.part + ".";
  Json about = Json::object();
  about.set(at + "r", config.rank)
      .set(at + "lora_alpha", config.alpha)
      .set(at + "use_rslora", config.use_rslora)
      .set(at + "lora_bias", false)
      .set(at + "rank_pattern", Json::object())
      .set(at + "alpha_pattern", Json::object())
      .set(at + "target_modules", modules);
  return about.dump(-1);
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
      .set("bias", "none")
      .set("fan_in_fan_out", false)
      .set("rank_pattern", Json::object())
      .set("alpha_pattern", Json::object())
      .set("target_modules", modules);
  return out;
}

}  // namespace

double AdapterConfig::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (use_rslora ? std::sqrt(r) : r);
}

nn::LowRanks adapter_modules(std::span<const nn::ParamSpec> specs,
                             std::span<const std::string> targets, int64_t rank) {
  const std::vector<Linear> layers = linear_layers(specs);
  std::vector<std::string> modules;
  for (const Linear& linear : layers) {
    modules.insert(modules.end(), linear.modules.begin(), linear.modules.end());
  }
  const bool all = std::ranges::find(targets, "all") != targets.end();
  const std::vector<std::string> meant =
      named_by(modules, written_out(targets, modules), kTargets, other_modules(specs, modules));
  nn::LowRanks out;
  auto next = meant.begin();
  for (const Linear& linear : layers) {  // `meant` has the same order
    size_t found = 0;
    while (next != meant.end() && found < linear.modules.size() &&
           std::ranges::find(linear.modules, *next) != linear.modules.end()) {
      ++next;
      ++found;
    }
    check(all || found == 0 || found == linear.modules.size(),
          "[config] {} means {} of the {} layers of {}, which are one stack\n  scan_layers=false "
          "trains some of them",
          kTargets, found, linear.modules.size(), linear.name);
    if (all || found > 0) {
      out[linear.name] = rank;
    }
  }
  check(!out.empty(), "[config] {}: the transformer has none of these modules", kTargets);
  return out;
}

std::vector<std::string> adapter_module_names(std::span<const nn::ParamSpec> specs) {
  std::vector<std::string> out;
  for (const nn::ParamSpec& spec : specs) {
    for (int64_t layer = 0; layer < spec.count() && spec.name.ends_with(kDown); ++layer) {
      const std::string key = spec.key(layer);
      out.push_back(key.substr(0, key.size() - kDown.size()));
    }
  }
  return out;
}

void freeze_base(std::vector<nn::ParamSpec>& specs, const AdapterConfig& config) {
  for (nn::ParamSpec& spec : specs) {
    const bool is_scale = spec.name.ends_with(".lora_scale");
    spec.trained = spec.is_low_rank() && !is_scale;
    if (spec.trained) {
      spec.shape.dtype = DType::F32;
    }
    if (is_scale) {
      spec.init = {.kind = nn::Init::Kind::CONSTANT, .scale = config.scale()};
    }
    if (config.init == AdapterInit::GAUSSIAN && spec.name.ends_with(kDown)) {
      spec.init = nn::Init::normal(1.0 / static_cast<double>(config.rank));
    }
  }
}

UniformRank uniform_rank(const Adapter& adapter) {
  std::optional<UniformRank> out;
  const Lora& lora = *adapter.lora;
  for (const auto& [module, target] : adapter.targets()) {
    check(target.down != nullptr && target.up_bias == nullptr && target.diff == nullptr &&
              target.diff_bias == nullptr,
          "[lora] {} changes `{}` by more than a low-rank pair, so it cannot be trained further\n"
          "  name it after the adapter that is trained: then it is merged into the model",
          lora.path(), module);
    const UniformRank own{.rank = target.rank(), .factor = target.factor};
    check(
        !out || (out->rank == own.rank && out->factor == own.factor),
        "[lora] {} has several ranks or scales (`{}` has rank {} and {:g}), so it cannot be "
        "trained further\n  name it after the adapter that is trained: then it is merged into the "
        "model",
        lora.path(), module, own.rank, own.factor);
    out = own;
  }
  check(out.has_value(), "[lora] {} holds no pair for this transformer", lora.path());
  return *out;
}

std::vector<runtime::Array> load_adapters(std::span<const Adapter> apart, uint64_t seed,
                                          std::span<const nn::ParamSpec> specs,
                                          const runtime::Devices& devices) {
  const Adapters adapters(apart, specs);
  std::vector<runtime::Array> out;
  for (const nn::ParamSpec& spec : those(specs, true)) {
    out.push_back(devices.upload(addition(adapters, spec, seed), spec.sharding(devices.placement()),
                                 spec.memory));
  }
  return out;
}

std::vector<runtime::Array> load_adapted(const fs::path& base, std::span<const Adapter> merged,
                                         std::span<const Adapter> apart, uint64_t seed,
                                         std::span<const nn::ParamSpec> specs,
                                         const runtime::Devices& devices) {
  std::vector<runtime::Array> additions = load_adapters(apart, seed, specs, devices);
  std::vector<runtime::Array> network = load(base, those(specs, false), devices, merged);
  std::vector<runtime::Array> out;
  auto addition = additions.begin();
  auto own = network.begin();
  for (const nn::ParamSpec& spec : specs) {
    out.push_back(std::move(spec.is_low_rank() ? *addition++ : *own++));
  }
  return out;
}

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
          {config.part + "." + factors[i].key(layer), shape,
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
  Json modules = Json::array();
  for (std::string& module : adapter_module_names(factors)) {
    modules.append(std::move(module));
  }
  io::make_folder(folder);
  std::map<std::string, std::string> metadata{
      {"format", "pt"}, {"lora_adapter_metadata", diffusers_metadata(config, modules)}};
  if (!config.expert.empty()) {
    metadata.emplace(kExpertKey, config.expert);
  }
  io::write_safetensors(folder / kLoraFile, entries, metadata);
  io::write_file(folder / kPeftConfig, peft_config(config, modules).dump() + "\n");
}

}  // namespace kinema::weights
