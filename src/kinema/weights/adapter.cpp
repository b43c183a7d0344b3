#include "kinema/weights/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "kinema/adapters/methods/methods.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/nn/init.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/module_names.h"
#include "kinema/weights/weights.h"

namespace kinema::weights {
namespace {

namespace fs = std::filesystem;
using io::Json;

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kDown = ".lora_A.weight";
constexpr std::string_view kUp = ".lora_B.weight";
constexpr std::string_view kMagnitude = ".lora_magnitude_vector";
constexpr std::string_view kWholeW2 = ".lokr_w2";
// A parameter that each adapter of the kind has.
constexpr std::array<std::string_view, 3> kMarks{kDown, ".hada_w1_b", ".lokr_w1"};
constexpr const char* kTargets = "lora_target_modules";
constexpr std::string_view kConvolutions = "convolutions";

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

/// A linear layer or a convolution over images, or all layers of a stack.
struct Linear {
  std::string name;  // as in LowRanks
  std::vector<std::string> modules;
  bool is_convolution = false;
};

std::vector<Linear> layers_of(std::span<const nn::ParamSpec> specs) {
  std::vector<Linear> out;
  const auto module_of = [](const std::string& key) {
    return key.substr(0, key.size() - kWeight.size());
  };
  for (const nn::ParamSpec& spec : specs) {
    const int64_t axes = spec.layer_shape().rank();
    if (!spec.name.ends_with(kWeight) || (axes != 2 && axes != 4) || spec.is_low_rank()) {
      continue;
    }
    Linear linear{.name = module_of(spec.name), .modules = {}, .is_convolution = axes == 4};
    for (int64_t layer = 0; layer < spec.count(); ++layer) {
      linear.modules.push_back(module_of(spec.key(layer)));
    }
    out.push_back(std::move(linear));
  }
  return out;
}

/// Modules that are neither linear layers nor convolutions: norms and containers.
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
                                     std::span<const std::string> modules,
                                     std::span<const std::string> convolutions) {
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
    } else if (target == kConvolutions) {
      std::ranges::copy_if(convolutions, std::back_inserter(out), [](const std::string& module) {
        return module.find("block") != std::string::npos;
      });
    } else if (target != "all") {
      out.push_back(target);
    }
  }
  return out;
}

/// The norms of a network's rows, as DoRA starts with them: of the weights that the step computes
/// with, adapters that are merged included.
class RowNorms {
 public:
  RowNorms(const model_files::Checkpoint& base, std::span<const Adapter> merged,
           std::span<const nn::ParamSpec> network)
      : base_(base), merged_(merged, network) {
    for (const nn::ParamSpec& spec : network) {
      for (int64_t layer = 0; layer < spec.count(); ++layer) {
        dtypes_.emplace(spec.key(layer), spec.shape.dtype);
      }
    }
  }

  void read(const std::string& module, std::span<float> norms) const {
    const std::string key = module + std::string(kWeight);
    HostArray weight = convert(base_.at(key).copy(), DType::F32);
    if (merged_.change(key)) {
      merged_.add_to(key, weight.as<float>());
    }
    const DType stored = dtypes_.at(key);
    if (stored != DType::F32 && is_float(stored) && !is_f8(stored)) {
      weight = convert(convert(weight, stored), DType::F32);
    }
    const auto values = weight.as<float>();
    const size_t width = values.size() / norms.size();
    for (size_t row = 0; row < norms.size(); ++row) {
      double squares = 0;
      for (const float x : values.subspan(row * width, width)) {
        squares += static_cast<double>(x) * x;
      }
      norms[row] = static_cast<float>(std::sqrt(squares));
    }
  }

 private:
  const model_files::Checkpoint& base_;
  Adapters merged_;
  std::map<std::string, DType> dtypes_;
};

/// One adapter tensor in host memory. Layers without an adapter are initialised by their init: if
/// both factors were zeros, neither would get a gradient.
HostArray addition(const Adapters& adapters, const nn::ParamSpec& spec, uint64_t seed,
                   const RowNorms* norms) {
  HostArray all(Shape{DType::F32, spec.shape.dims});
  const Shape shape = spec.layer_shape();
  const auto size = static_cast<size_t>(shape.elements());
  for (int64_t layer = 0; layer < spec.count(); ++layer) {
    const std::string key = spec.key(layer);
    const auto values = all.as<float>().subspan(static_cast<size_t>(layer) * size, size);
    if (adapters.change(key)) {
      adapters.add_to(key, values);
    } else if (norms != nullptr && key.ends_with(kMagnitude)) {
      norms->read(key.substr(0, key.size() - kMagnitude.size()), values);
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

/// The ends of `specs` with this part, without it, with separate names for the layers of a stack.
std::vector<std::string> modules_with(std::span<const nn::ParamSpec> specs, std::string_view part) {
  std::vector<std::string> out;
  for (const nn::ParamSpec& spec : specs) {
    for (int64_t layer = 0; layer < spec.count() && spec.name.ends_with(part); ++layer) {
      const std::string key = spec.key(layer);
      out.push_back(key.substr(0, key.size() - part.size()));
    }
  }
  return out;
}

}  // namespace

double AdapterConfig::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (use_rslora ? std::sqrt(r) : r);
}

nn::LowRanks adapter_modules(std::span<const nn::ParamSpec> specs,
                             std::span<const std::string> targets, int64_t rank) {
  const std::vector<Linear> layers = layers_of(specs);
  std::vector<std::string> modules;
  std::vector<std::string> convolutions;
  for (const Linear& linear : layers) {
    modules.insert(modules.end(), linear.modules.begin(), linear.modules.end());
    if (linear.is_convolution) {
      convolutions.insert(convolutions.end(), linear.modules.begin(), linear.modules.end());
    }
  }
  check(std::ranges::count(targets, kConvolutions) == 0 || !convolutions.empty(),
        "[config] {}: this network has no convolutions over images", kTargets);
  const bool all = std::ranges::find(targets, "all") != targets.end();
  const std::vector<std::string> meant =
      named_by(modules, written_out(targets, modules, convolutions), kTargets,
               other_modules(specs, modules));
  nn::LowRanks out;
  auto next = meant.begin();
  for (const Linear& linear : layers) {  // `meant` has the same order
    size_t found = 0;
    while (next != meant.end() && found < linear.modules.size() &&
           std::ranges::find(linear.modules, *next) != linear.modules.end()) {
      ++next;
      ++found;
    }
    const bool is_meant = all && !linear.is_convolution;
    check(is_meant || found == 0 || found == linear.modules.size(),
          "[config] {} means {} of the {} layers of {}, which are one stack\n  scan_layers=false "
          "trains some of them",
          kTargets, found, linear.modules.size(), linear.name);
    if (is_meant || found > 0) {
      out[linear.name] = rank;
    }
  }
  check(!out.empty(), "[config] {}: the transformer has none of these modules", kTargets);
  return out;
}

std::vector<std::string> adapter_module_names(std::span<const nn::ParamSpec> specs) {
  std::vector<std::string> out;
  for (const std::string_view mark : kMarks) {
    std::vector<std::string> names = modules_with(specs, mark);
    out.insert(out.end(), names.begin(), names.end());
  }
  return out;
}

std::string_view kind_name(nn::AdapterKind kind) {
  switch (kind) {
    case nn::AdapterKind::LORA:
      return "LoRA";
    case nn::AdapterKind::DORA:
      return "DoRA";
    case nn::AdapterKind::LOHA:
      return "LoHa";
    case nn::AdapterKind::LOKR:
      return "LoKr";
  }
  return "";
}

void freeze_base(std::vector<nn::ParamSpec>& specs, const AdapterConfig& config) {
  std::set<std::string> whole;  // LoKr's layers without a low-rank factor
  for (const nn::ParamSpec& spec : specs) {
    if (spec.name.ends_with(kWholeW2)) {
      whole.insert(spec.name.substr(0, spec.name.size() - kWholeW2.size()));
    }
  }
  for (nn::ParamSpec& spec : specs) {
    constexpr std::string_view kScale = ".lora_scale";
    const bool is_scale = spec.name.ends_with(kScale);
    spec.trained = spec.is_low_rank() && !is_scale;
    if (spec.trained) {
      spec.shape.dtype = DType::F32;
    }
    if (spec.name.ends_with(kUp)) {
      spec.rate = config.plus_ratio;
    }
    if (is_scale) {
      const bool is_whole = whole.contains(spec.name.substr(0, spec.name.size() - kScale.size()));
      spec.init = {.kind = nn::Init::Kind::CONSTANT, .scale = is_whole ? 1 : config.scale()};
    }
    if (config.init == AdapterInit::GAUSSIAN && spec.name.ends_with(kDown)) {
      spec.init = nn::Init::normal(1.0 / static_cast<double>(config.rank));
    }
  }
}

namespace {

/// The kind that a module's tensors can be trained as; nothing for others.
std::optional<nn::AdapterKind> trainable_kind(const Lora::Target& target) {
  if (target.up_bias != nullptr || target.diff != nullptr || target.diff_bias != nullptr ||
      target.cut != model_files::Cut::WHOLE) {
    return std::nullopt;
  }
  if (target.method == nullptr) {
    return target.down == nullptr ? std::nullopt : std::optional(nn::AdapterKind::LORA);
  }
  return adapters::trained_kind(*target.method, target.parts);
}

}  // namespace

UniformRank uniform_rank(const Adapter& adapter) {
  std::optional<UniformRank> out;
  const Lora& lora = *adapter.lora;
  for (const auto& [module, target] : adapter.targets()) {
    const std::optional<nn::AdapterKind> kind = trainable_kind(target);
    check(kind.has_value(),
          "[lora] {} changes `{}` by more than a low-rank pair, so it cannot be trained further\n"
          "  name it after the adapter that is trained: then it is merged into the model",
          lora.path(), module);
    const int64_t rank =
        target.method == nullptr ? target.rank() : target.method->rank(target.parts);
    UniformRank own{.rank = rank, .factor = target.factor, .kind = *kind};
    if (rank == 0 && out) {  // LoKr with whole factors
      own.rank = out->rank;
      own.factor = out->factor;
    } else if (out && out->rank == 0 && out->kind == own.kind) {
      out = own;
    }
    check(
        !out || (out->rank == own.rank && out->factor == own.factor && out->kind == own.kind),
        "[lora] {} has several ranks or scales (`{}` is {} of rank {} and {:g}), so it cannot be "
        "trained further\n  name it after the adapter that is trained: then it is merged into the "
        "model",
        lora.path(), module, kind_name(own.kind), own.rank, own.factor);
    out = own;
  }
  check(out.has_value(), "[lora] {} holds no pair for this transformer", lora.path());
  return *out;
}

namespace {

std::vector<runtime::Array> load_additions(std::span<const Adapter> apart, uint64_t seed,
                                           std::span<const nn::ParamSpec> specs,
                                           const runtime::Devices& devices, const RowNorms* norms) {
  const Adapters adapters(apart, specs);
  std::vector<runtime::Array> out;
  for (const nn::ParamSpec& spec : those(specs, true)) {
    out.push_back(devices.upload(addition(adapters, spec, seed, norms),
                                 spec.sharding(devices.placement()), spec.memory));
  }
  return out;
}

}  // namespace

std::vector<runtime::Array> load_adapters(std::span<const Adapter> apart, uint64_t seed,
                                          std::span<const nn::ParamSpec> specs,
                                          const runtime::Devices& devices) {
  return load_additions(apart, seed, specs, devices, nullptr);
}

std::vector<runtime::Array> load_adapted(const fs::path& base, std::span<const Adapter> merged,
                                         std::span<const Adapter> apart, uint64_t seed,
                                         std::span<const nn::ParamSpec> specs,
                                         const runtime::Devices& devices) {
  const model_files::Checkpoint files = model_files::Checkpoint::open(base);
  check_tensors(files, those(specs, false));
  return load_adapted(files, merged, apart, seed, specs, devices);
}

std::vector<runtime::Array> load_adapted(const model_files::Checkpoint& base,
                                         std::span<const Adapter> merged,
                                         std::span<const Adapter> apart, uint64_t seed,
                                         std::span<const nn::ParamSpec> specs,
                                         const runtime::Devices& devices) {
  const bool has_norms = std::ranges::any_of(
      specs, [](const nn::ParamSpec& spec) { return spec.name.ends_with(kMagnitude); });
  std::optional<RowNorms> norms;
  if (has_norms) {
    norms.emplace(base, merged, those(specs, false));
  }
  std::vector<runtime::Array> additions =
      load_additions(apart, seed, specs, devices, norms ? &*norms : nullptr);
  std::vector<runtime::Array> network = load_arrays(base, those(specs, false), devices, merged);
  std::vector<runtime::Array> out;
  auto addition = additions.begin();
  auto own = network.begin();
  for (const nn::ParamSpec& spec : specs) {
    out.push_back(std::move(spec.is_low_rank() ? *addition++ : *own++));
  }
  return out;
}

}  // namespace kinema::weights
