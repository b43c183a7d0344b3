#include "kinema/weights/convert_lora.h"

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/host_array.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"
#include "kinema/weights/join_lora.h"
#include "kinema/weights/lora.h"
#include "kinema/weights/names.h"

namespace kinema::weights {
namespace {

namespace fs = std::filesystem;
using io::Json;

/// The prefix of a text encoder's modules in the format.
std::string text_prefix(LoraFormat to, LoraMember member, const std::string& module) {
  const bool second = member == LoraMember::TEXT_ENCODER_2;
  const bool t5 = is_of_t5(module);
  switch (to) {
    case LoraFormat::DIFFUSERS:
      return second ? "text_encoder_2." : "text_encoder.";
    case LoraFormat::COMFYUI:
      return t5       ? "text_encoders.t5xxl.transformer."
             : second ? "text_encoders.clip_g.transformer."
                      : "text_encoders.clip_l.transformer.";
    case LoraFormat::KOHYA:
      return t5 ? "lora_te3_" : second ? "lora_te2_" : "lora_te1_";
    case LoraFormat::ORIGINAL:
      break;
  }
  fail(
      "[lora] `{}` is of a text encoder, which the original release has in a file of its own\n"
      "  --to comfyui or kohya holds both",
      module);
}

/// The name of a network's module in the format, without the part; `original` is its original name.
std::string network_name(LoraFormat to, const Family& family, const std::string& module,
                         const std::string& original, bool second) {
  switch (to) {
    case LoraFormat::DIFFUSERS:
      return (second ? "transformer_2" : std::string(family.part)) + "." + module;
    case LoraFormat::ORIGINAL:
      return original;
    case LoraFormat::COMFYUI:
      return "diffusion_model." + original;
    case LoraFormat::KOHYA:
      return "lora_unet_" + original;
  }
  return original;
}

/// kohya's names have underscores instead of dots.
std::string spelt(LoraFormat to, std::string name) {
  if (to == LoraFormat::KOHYA) {
    std::ranges::replace(name, '.', '_');
  }
  return name;
}

/// ComfyUI and diffusers both read UNets' adapters in kohya's names; diffusers cannot read
/// ComfyUI's.
LoraFormat format_for(LoraFormat to, const Family& family) {
  return to == LoraFormat::COMFYUI && family.part == "unet" ? LoraFormat::KOHYA : to;
}

/// A module's name for PEFT, which matches the end of names: newer transformers versions omit this
/// prefix of CLIP's text model.
std::string peft_module(const std::string& module) {
  constexpr std::string_view kText = "text_model.";
  return module.starts_with(kText) ? module.substr(kText.size()) : module;
}

bool says_a_and_b(LoraFormat to) {
  return to == LoraFormat::DIFFUSERS || to == LoraFormat::ORIGINAL;
}

class Writer {
 public:
  Writer(LoraFormat to, std::optional<DType> dtype) : to_(to), dtype_(dtype) {}

  void add(const std::string& name, const std::string& module, const Lora::Target& target) {
    const bool ab = says_a_and_b(to_);
    add(name + (ab ? ".lora_A.weight" : ".lora_down.weight"), target.down);
    add(name + (ab ? ".lora_B.weight" : ".lora_up.weight"), target.up);
    if (ab) {
      add(name + ".lora_B.bias", target.up_bias);
      add(name + ".diff_b", target.diff_bias);
    } else {
      add_bias(name + ".diff_b", target, module);
    }
    check(
        to_ != LoraFormat::DIFFUSERS || (target.diff == nullptr && target.diff_bias == nullptr),
        "[lora] `{}` has a difference of a whole weight or bias, which LoRA files of diffusers do "
        "not hold\n  --to comfyui holds it",
        module);
    add(name + ".diff", target.diff);
    if (target.down == nullptr) {
      return;
    }
    const double alpha = target.alpha != nullptr
                             ? convert(target.alpha->copy(), DType::F64).as<double>()[0]
                             : target.factor * static_cast<double>(target.rank());
    if (to_ == LoraFormat::DIFFUSERS) {
      const std::string at = name.substr(0, name.find('.') + 1);
      alphas_[at][peft_module(module)] = alpha;
      ranks_[at][peft_module(module)] = target.rank();
      has_bias_[at] = has_bias_[at] || target.up_bias != nullptr;
    } else if (target.alpha != nullptr) {
      add(name + ".alpha", target.alpha);
    } else if (target.factor != 1 || to_ == LoraFormat::KOHYA) {
      // Alpha may be from metadata or another file; readers of kohya's files require one per
      // module.
      entries_.push_back(io::TensorEntry::lazy(name + ".alpha", Shape{DType::F32, {}}, [alpha] {
        const auto value = static_cast<float>(alpha);
        return HostArray::f32({}, std::span(&value, 1));
      }));
    }
  }

  const std::vector<io::TensorEntry>& entries() const { return entries_; }

  /// diffusers keeps PEFT's parameters there; kohya's readers need nothing.
  std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> out{{"format", "pt"}};
    Json about = Json::object();
    for (const auto& [at, ranks] : ranks_) {
      // The first module's value, and a pattern for each module that differs.
      const auto& alphas = alphas_.at(at);
      const int64_t rank = ranks.begin()->second;
      const double alpha = alphas.begin()->second;
      Json rank_pattern = Json::object();
      Json alpha_pattern = Json::object();
      Json modules = Json::array();
      for (const auto& [module, own] : ranks) {
        modules.append(module);
        if (own != rank) {
          rank_pattern.set(module, own);
        }
        if (alphas.at(module) != alpha) {
          alpha_pattern.set(module, alphas.at(module));
        }
      }
      about.set(at + "r", rank)
          .set(at + "lora_alpha", alpha)
          .set(at + "lora_bias", has_bias_.at(at))
          .set(at + "rank_pattern", std::move(rank_pattern))
          .set(at + "alpha_pattern", std::move(alpha_pattern))
          .set(at + "target_modules", std::move(modules));
    }
    if (!ranks_.empty()) {
      out.emplace("lora_adapter_metadata", about.dump(-1));
    }
    return out;
  }

 private:
  /// The difference of a module's bias. Only PEFT's format has one that alpha scales.
  void add_bias(const std::string& name, const Lora::Target& target, const std::string& module) {
    if (target.up_bias == nullptr) {
      return add(name, target.diff_bias);
    }
    check(target.diff_bias == nullptr, "[lora] `{}` has two differences of its bias", module);
    Shape shape = target.up_bias->shape;
    shape.dtype = dtype_.value_or(shape.dtype);
    entries_.push_back(io::TensorEntry::lazy(
        name, shape,
        [bias = target.up_bias, factor = static_cast<float>(target.factor), to = shape.dtype] {
          HostArray scaled = convert(bias->copy(), DType::F32);
          for (float& each : scaled.as<float>()) {
            each *= factor;
          }
          return convert(scaled, to);
        }));
  }
  void add(const std::string& name, const io::TensorView* tensor) {
    if (tensor == nullptr) {
      return;
    }
    Shape shape = tensor->shape;
    if (!dtype_ || shape.dtype == *dtype_) {
      entries_.push_back(io::TensorEntry::of(name, *tensor));
      return;
    }
    shape.dtype = *dtype_;
    entries_.push_back(io::TensorEntry::lazy(
        name, shape, [tensor, dtype = *dtype_] { return convert(tensor->copy(), dtype); }));
  }

  LoraFormat to_;
  std::optional<DType> dtype_;
  std::vector<io::TensorEntry> entries_;
  // By `transformer.` or `transformer_2.`, then by module.
  std::map<std::string, std::map<std::string, double>> alphas_;
  std::map<std::string, std::map<std::string, int64_t>> ranks_;
  std::map<std::string, bool> has_bias_;
};

}  // namespace

LoraFormat lora_format_from_string(const std::string& name) {
  const std::map<std::string, LoraFormat> formats{{"diffusers", LoraFormat::DIFFUSERS},
                                                  {"original", LoraFormat::ORIGINAL},
                                                  {"comfyui", LoraFormat::COMFYUI},
                                                  {"kohya", LoraFormat::KOHYA}};
  const auto found = formats.find(name);
  check(found != formats.end(),
        "[lora] `{}` is not a LoRA format, expected diffusers, original, comfyui or kohya", name);
  return found->second;
}

void convert_lora(const fs::path& source, const fs::path& target, LoraFormat format,
                  std::optional<DType> dtype) {
  const Lora lora = Lora::open(source);
  check(lora.unknown().empty(),
        "[lora] {} has {} keys that name no module that is known, the first is `{}`", lora.path(),
        lora.unknown().size(), lora.unknown().empty() ? "" : lora.unknown().front());
  check(target.extension() == ".safetensors", "[lora] {} must end with .safetensors",
        target.string());
  const Family& family = lora.family() == nullptr ? families().front() : *lora.family();
  const LoraFormat to = format_for(format, family);
  check(!lora.has_two_parts() || to == LoraFormat::DIFFUSERS,
        "[lora] {} is for both experts of Wan 2.2, which only --to diffusers holds in one file",
        lora.path());
  std::error_code ignored;
  check(!fs::exists(fs::symlink_status(target, ignored)),
        "[weights] {} exists already\n  remove it, or choose another path", target.string());
  Writer writer(to, dtype);
  std::deque<Joined> joined;  // sources of the writer's entries
  for (int64_t expert = 0; expert < (lora.has_two_parts() ? 2 : 1); ++expert) {
    std::map<std::string, std::vector<JoinedPart>> together;
    for (const auto& [module, parts] : lora.targets(expert)) {
      Piece piece{.name = module};
      if (to != LoraFormat::DIFFUSERS) {
        const auto original = original_module(*family.names, module);
        check(original.has_value(), "[lora] the original release has no name for `{}`", module);
        piece = *original;
      }
      if (piece.cut == Cut::WHOLE) {
        writer.add(spelt(to, network_name(to, family, module, piece.name, expert == 1)), module,
                   parts);
      } else {
        together[piece.name].push_back({module, piece, &parts});
      }
    }
    for (const auto& [original, parts] : together) {
      const Joined& one = joined.emplace_back(join(*family.names, original, parts, lora.path()));
      writer.add(spelt(to, network_name(to, family, "", original, expert == 1)), original,
                 one.target);
    }
  }
  for (const LoraMember member : {LoraMember::TEXT_ENCODER, LoraMember::TEXT_ENCODER_2}) {
    for (const auto& [module, parts] : lora.targets(member)) {
      writer.add(spelt(to, text_prefix(to, member, module) + module), module, parts);
    }
  }
  std::map<std::string, std::string> metadata = writer.metadata();
  if (lora.only_expert()) {
    metadata.emplace(kExpertKey, lora.only_expert() == 1 ? kLowNoise : kHighNoise);
  }
  io::write_safetensors(target, writer.entries(), metadata);
}

}  // namespace kinema::weights
