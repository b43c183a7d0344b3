#include "kinema/weights/convert_lora.h"

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "kinema/adapters/methods/methods.h"
#include "kinema/core/error.h"
#include "kinema/core/host_array.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"
#include "kinema/model_files/names.h"
#include "kinema/weights/harmless_parts.h"
#include "kinema/weights/join_lora.h"
#include "kinema/weights/lora.h"

namespace kinema::weights {
namespace {

namespace fs = std::filesystem;
using io::Json;

/// The prefix of a text encoder's modules in the format.
std::string text_prefix(LoraFormat to, const model_files::Family* family, LoraMember member,
                        const std::string& module) {
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
      return t5                                                          ? "lora_te3_"
             : second                                                    ? "lora_te2_"
             : family != nullptr && family->text_encoder_2_class.empty() ? "lora_te_"
                                                                         : "lora_te1_";
    case LoraFormat::ORIGINAL:
      break;
  }
  fail(
      "[lora] `{}` is of a text encoder, which the original release has in a file of its own\n"
      "  --to comfyui or kohya holds both",
      module);
}

/// The name of a network's module in the format, without the part; `original` is its original name.
std::string network_name(LoraFormat to, const model_files::Family& family,
                         const std::string& module, const std::string& original, bool second) {
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

/// True if the format has the original names of modules. kohya's files have them for Stable
/// Diffusion XL alone, and diffusers' names for 1 and 2, as its scripts train these.
bool has_original_names(LoraFormat to, const model_files::Family& family) {
  return to != LoraFormat::DIFFUSERS &&
         (to != LoraFormat::KOHYA || family.names != &model_files::kStableDiffusionNames);
}

/// ComfyUI and diffusers both read UNets' adapters in kohya's names; diffusers cannot read
/// ComfyUI's.
LoraFormat format_for(LoraFormat to, const model_files::Family& family) {
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
    if (target.method != nullptr) {
      return add_method(name, module, target);
    }
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
      note_scale(name, module, alpha, target.rank(), target.up_bias != nullptr);
    } else if (target.alpha != nullptr) {
      add(name + ".alpha", target.alpha);
    } else if (target.factor != 1 || to_ == LoraFormat::KOHYA) {
      // Alpha may be from metadata or another file; readers of kohya's files require one per
      // module.
      add_alpha(name, alpha);
    }
  }

  void copy(const std::string& name, const io::TensorView* tensor) { add(name, tensor); }

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
      if (dora_.contains(at)) {
        about.set(at + "use_dora", true);
      }
    }
    if (!ranks_.empty()) {
      out.emplace("lora_adapter_metadata", about.dump(-1));
    }
    return out;
  }

 private:
  /// The tensors of another method as they are, under LyCORIS' names. Of these methods, diffusers'
  /// files have DoRA with norms of rows.
  void add_method(const std::string& name, const std::string& module, const Lora::Target& target) {
    const auto at = [&](adapters::LoraPart part) {
      return target.parts[static_cast<size_t>(part)];
    };
    const std::string_view method = adapters::method_name(*target.method, target.parts);
    const int64_t rank = target.method->rank(target.parts);
    if (to_ == LoraFormat::DIFFUSERS) {
      const bool is_dora_pair =
          target.method == &adapters::kPair && at(adapters::LoraPart::MID) == nullptr &&
          target.cut == model_files::Cut::WHOLE && adapters::is_dora(target.parts) &&
          !adapters::norms_are_of_columns(target.parts, adapters::kPair.size(target.parts));
      check(is_dora_pair && target.diff_bias == nullptr,
            "[lora] `{}` is {}, which LoRA files of diffusers do not hold\n  --to comfyui or kohya "
            "holds it",
            module, method);
      add(name + ".lora_A.weight", at(adapters::LoraPart::DOWN));
      add(name + ".lora_B.weight", at(adapters::LoraPart::UP));
      add_norms(name + ".lora_magnitude_vector", target, /*is_peft=*/true);
      note_scale(name, module, target.factor * static_cast<double>(rank), rank, false);
      dora_[name.substr(0, name.find('.') + 1)] = true;
      return;
    }
    for (size_t i = 0; i < target.parts.size(); ++i) {
      const auto part = static_cast<adapters::LoraPart>(i);
      if (target.parts[i] == nullptr) {
        continue;
      }
      if (part == adapters::LoraPart::MAGNITUDE) {
        add_norms(name + ".dora_scale", target, /*is_peft=*/false);
      } else {
        add(name + "." + std::string(adapters::part_name(part)), target.parts[i]);
      }
    }
    check(rank > 0 || target.factor == 1,
          "[lora] `{}` is {} with whole factors and a scale from adapter_config.json, which other "
          "programs do not read",
          module, method);
    // LyCORIS requires an alpha of each module that has a rank, or that is LoKr. That of OFT is
    // something else.
    if (at(adapters::LoraPart::ALPHA) == nullptr &&
        (rank > 0 || target.method == &adapters::kLokr)) {
      add_alpha(name, target.factor * static_cast<double>(std::max<int64_t>(rank, 1)));
    }
  }
  /// The norms of DoRA: PEFT's [out] or [1, out, 1, 1], kohya's [out, 1] or [out, 1, 1, 1].
  void add_norms(const std::string& name, const Lora::Target& target, bool is_peft) {
    const io::TensorView* norms = target.parts[static_cast<size_t>(adapters::LoraPart::MAGNITUDE)];
    norms = norms == nullptr ? target.parts[static_cast<size_t>(adapters::LoraPart::DORA_SCALE)]
                             : norms;
    const size_t axes =
        target.parts[static_cast<size_t>(adapters::LoraPart::DOWN)] == nullptr
            ? 2
            : target.parts[static_cast<size_t>(adapters::LoraPart::DOWN)]->shape.dims.size();
    Dims dims(is_peft && axes == 2 ? 1 : axes, 1);
    dims[is_peft && axes > 2 ? 1 : 0] = norms->shape.elements();
    const Shape shape{dtype_.value_or(norms->shape.dtype), dims};
    entries_.push_back(io::TensorEntry::lazy(name, shape, [norms, shape] {
      HostArray values = convert(norms->copy(), shape.dtype);
      values.shape = shape;
      return values;
    }));
  }
  void note_scale(const std::string& name, const std::string& module, double alpha, int64_t rank,
                  bool has_bias) {
    const std::string at = name.substr(0, name.find('.') + 1);
    alphas_[at][peft_module(module)] = alpha;
    ranks_[at][peft_module(module)] = rank;
    has_bias_[at] = has_bias_[at] || has_bias;
  }
  void add_alpha(const std::string& name, double alpha) {
    entries_.push_back(io::TensorEntry::lazy(name + ".alpha", Shape{DType::F32, {}}, [alpha] {
      const auto value = static_cast<float>(alpha);
      return HostArray::f32({}, std::span(&value, 1));
    }));
  }
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
  std::map<std::string, bool> dora_;
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
  check(target.extension() == ".safetensors", "[lora] {} must end with .safetensors",
        target.string());
  const model_files::Family& family =
      lora.family() == nullptr ? model_files::families().front() : *lora.family();
  const LoraFormat to = format_for(format, family);
  std::vector<std::string> unknown = lora.unknown();
  if (to != LoraFormat::DIFFUSERS) {  // copied below; diffusers refuses such keys
    std::erase_if(unknown, [](const std::string& key) { return !harmless_kind(key).empty(); });
  }
  check(unknown.empty(),
        "[lora] {} has {} keys that name no module that is known, the first is `{}`", lora.path(),
        unknown.size(), unknown.empty() ? "" : unknown.front());
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
      model_files::Piece piece{.name = module};
      if (has_original_names(to, family)) {
        const auto original = model_files::original_module(*family.names, module);
        check(original.has_value(), "[lora] the original release has no name for `{}`", module);
        piece = *original;
      }
      if (piece.cut == model_files::Cut::WHOLE) {
        writer.add(spelt(to, network_name(to, family, module, piece.name, expert == 1)), module,
                   parts);
      } else {
        together[piece.name].push_back({module, piece, &parts});
      }
    }
    for (const auto& [original, parts] : together) {
      // A file in the original's names has the tensors of the whole module.
      const Lora::Target& first = *parts.front().target;
      const bool is_same = std::ranges::all_of(parts, [&](const JoinedPart& part) {
        return part.target->method != nullptr && part.target->parts == first.parts &&
               part.target->cut == part.piece.cut;
      });
      if (is_same) {
        writer.add(spelt(to, network_name(to, family, "", original, expert == 1)), original, first);
        continue;
      }
      check(
          std::ranges::none_of(parts, [](const JoinedPart& part) { return part.target->method; }),
          "[lora] {}: `{}` is {}, and the original release joins it with others in `{}`\n  "
          "generate and train read the file as it is",
          lora.path(), parts.front().module,
          first.method == nullptr ? "low-rank" : adapters::method_name(*first.method, first.parts),
          original);
      const Joined& one = joined.emplace_back(join(*family.names, original, parts, lora.path()));
      writer.add(spelt(to, network_name(to, family, "", original, expert == 1)), original,
                 one.target);
    }
  }
  for (const LoraMember member : {LoraMember::TEXT_ENCODER, LoraMember::TEXT_ENCODER_2}) {
    for (const auto& [module, parts] : lora.targets(member)) {
      writer.add(spelt(to, text_prefix(to, lora.family(), member, module) + module), module, parts);
    }
  }
  for (const std::string& key : lora.unknown()) {
    writer.copy(key, lora.tensor(key));
  }
  std::map<std::string, std::string> metadata = writer.metadata();
  if (lora.only_expert()) {
    metadata.emplace(kExpertKey, lora.only_expert() == 1 ? kLowNoise : kHighNoise);
  }
  io::write_safetensors(target, writer.entries(), metadata);
}

}  // namespace kinema::weights
