#include "kinema/model_files/file_names.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/family.h"

namespace kinema::model_files {
namespace {

using Names = std::set<std::string_view>;

// Prefixes of other models in a file with a whole pipeline. `denoiser.` is the table of noise
// levels in SDXL's releases, which is also in their configuration.
constexpr std::array<std::string_view, 6> kOtherParts{"vae.",           "first_stage_model.",
                                                      "text_encoders.", "cond_stage_model.",
                                                      "conditioner.",   "denoiser."};

// Tensors that training programs leave in files and that no model reads. With a dot at the end: all
// names with this prefix.
constexpr std::array<std::string_view, 23> kLeftOvers{
    "alphas_cumprod", "alphas_cumprod_prev", "betas", "log_one_minus_alphas_cumprod", "logvar",
    "loss.", "lvlb_weights", "model_ema.", "posterior_log_variance_clipped", "posterior_mean_coef1",
    "posterior_mean_coef2", "posterior_variance", "sqrt_alphas_cumprod",
    "sqrt_one_minus_alphas_cumprod", "sqrt_recip_alphas_cumprod", "sqrt_recipm1_alphas_cumprod",
    "scale_factor", "first_stage_model.loss.", "spiece_model", "first_stage_model.logvar",
    // Of Lumina 2, in files of Z-Image.
    "norm_final.weight", "diffusion_model.norm_final.weight",
    "model.diffusion_model.norm_final.weight"};

// Prefixes of a network's keys, by the program that wrote the file.
constexpr std::array<std::string_view, 6> kPrefixes{
    "model.diffusion_model.", "diffusion_model.", "transformer.", "model.", "module.", ""};

/// Another model of a pipeline: its table of names, its possible prefixes, and tensors of which it
/// has one.
struct PartNames {
  std::string_view part;
  const NameTable* table;
  std::span<const std::string_view> prefixes;
  std::span<const std::string_view> marks;
};

constexpr std::array<std::string_view, 3> kVaePrefixes{"first_stage_model.", "vae.", ""};
// Wan's autoencoder has another attention, with a single weight.
constexpr std::array<std::string_view, 2> kWanVaeMarks{
    "decoder.middle.1.to_qkv.weight", "decoder.mid_block.attentions.0.to_qkv.weight"};
constexpr std::array<std::string_view, 3> kVaeMarks{"decoder.mid.attn_1.q.weight",
                                                    "decoder.mid_block.attentions.0.to_q.weight",
                                                    "decoder.mid_block.attentions.0.query.weight"};
constexpr std::array<std::string_view, 4> kClipPrefixes{"conditioner.embedders.0.transformer.",
                                                        "text_encoders.clip_l.transformer.",
                                                        "cond_stage_model.transformer.", ""};
// Some files of Stable Diffusion 1 have transformers' newer names.
constexpr std::array<std::string_view, 1> kBareClipPrefixes{"cond_stage_model.transformer."};
constexpr std::array<std::string_view, 1> kBareClipMarks{"embeddings.token_embedding.weight"};
constexpr std::array<std::string_view, 3> kSecondClipPrefixes{
    "conditioner.embedders.1.transformer.", "text_encoders.clip_g.transformer.", ""};
constexpr std::array<std::string_view, 1> kClipMarks{
    "text_model.embeddings.token_embedding.weight"};
constexpr std::array<std::string_view, 3> kOpenClipPrefixes{"conditioner.embedders.1.model.",
                                                            "conditioner.embedders.0.model.", ""};
constexpr std::array<std::string_view, 1> kOnlyOpenClipPrefixes{kStableDiffusion2Encoder};
constexpr std::array<std::string_view, 1> kOpenClipMarks{
    "transformer.resblocks.0.attn.in_proj_weight"};

constexpr std::array<std::string_view, 2> kT5Prefixes{"text_encoders.t5xxl.transformer.", ""};
constexpr std::array<std::string_view, 2> kUmt5Prefixes{"text_encoders.umt5xxl.transformer.", ""};
constexpr std::array<std::string_view, 3> kT5Marks{"encoder.block.0.layer.0.SelfAttention.q.weight",
                                                   "blocks.0.attn.q.weight",
                                                   "enc.blk.0.attn_q.weight"};

constexpr std::array<std::string_view, 2> kControlPrefixes{"control_model.", ""};
constexpr std::array<std::string_view, 2> kControlMarks{"controlnet_cond_embedding.conv_in.weight",
                                                        "input_hint_block.0.weight"};
constexpr std::array<std::string_view, 5> kQwen3Prefixes{
    "text_encoders.qwen3_4b.transformer.model.", "text_encoders.qwen3_4b.transformer.",
    "text_encoders.qwen3_4b.model.", "model.", ""};
constexpr std::array<std::string_view, 2> kQwen3Marks{"layers.0.self_attn.q_norm.weight",
                                                      "blk.0.attn_q_norm.weight"};

constexpr std::array kParts{
    PartNames{kControlNet, &kControlNetNames, kControlPrefixes, kControlMarks},
    PartNames{kVae, &kAutoencoderNames, kVaePrefixes, kVaeMarks},
    PartNames{kVae, &kWanVaeNames, kVaePrefixes, kWanVaeMarks},
    PartNames{kTextEncoder, &kClipNames, kClipPrefixes, kClipMarks},
    PartNames{kTextEncoder, &kClipNames, kBareClipPrefixes, kBareClipMarks},
    PartNames{kTextEncoder, &kOpenClipNames, kOnlyOpenClipPrefixes, kOpenClipMarks},
    PartNames{kTextEncoder2, &kOpenClipNames, kOpenClipPrefixes, kOpenClipMarks},
    PartNames{kTextEncoder2, &kClipNames, kSecondClipPrefixes, kClipMarks},
    PartNames{kTextEncoder2, &kT5FileNames, kT5Prefixes, kT5Marks},
    PartNames{kTextEncoder, &kT5FileNames, kUmt5Prefixes, kT5Marks},
    PartNames{kTextEncoder, &kQwen3Names, kQwen3Prefixes, kQwen3Marks},
};

bool has_one(const Names& names, std::string_view prefix, std::span<const std::string_view> marks) {
  return std::ranges::any_of(marks, [&](std::string_view mark) {
    return names.contains(std::string(prefix) + std::string(mark));
  });
}

std::optional<FileNames> find_part(const Names& names, std::string_view part) {
  for (const PartNames& each : kParts) {
    for (const std::string_view prefix : each.prefixes) {
      if (each.part == part && has_one(names, prefix, each.marks)) {
        return FileNames{
            .table = each.table, .prefix = std::string(prefix), .exclusive = !prefix.empty()};
      }
    }
  }
  return std::nullopt;
}

std::optional<FileNames> find_network(const Names& names) {
  for (const std::string_view prefix : kPrefixes) {
    for (const Family& family : families()) {
      if (has_one(names, prefix, family.marks)) {
        return FileNames{.table = family.names, .prefix = std::string(prefix)};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

bool is_left_over(std::string_view name) {
  // The constant kernels of the blurs in Wan-Animate's motion encoder.
  if (name.find("motion_encoder.enc.net_app.") != std::string_view::npos &&
      name.ends_with(".kernel")) {
    return true;
  }
  return std::ranges::any_of(kLeftOvers, [&](std::string_view each) {
    return each.ends_with('.') ? name.starts_with(each) : name == each;
  });
}

bool is_objective_mark(std::string_view name) {
  return name == kVelocityMark || name == kZeroSnrMark || name == kEdmVelocityMin ||
         name == kEdmVelocityMax || name == kEdmMean || name == kEdmDeviation;
}

bool FileNames::is_of_model(std::string_view name) const {
  if (is_left_over(name) || is_objective_mark(name)) {
    return false;
  }
  if (prefix.empty() || name.starts_with(prefix)) {
    return true;
  }
  return !exclusive && std::ranges::none_of(kOtherParts, [&](std::string_view part) {
    return name.starts_with(part);
  });
}

std::string FileNames::without_prefix(const std::string& name) const {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

std::vector<Piece> FileNames::pieces(const std::string& key) const {
  if (table == nullptr || (naming == Naming::DIFFUSERS && !table->mixed)) {
    return {};
  }
  return diffusers_keys(*table, key, layout);
}

std::string FileNames::in_file(const std::string& key) const {
  if (table == nullptr || naming == Naming::DIFFUSERS) {
    return prefix + key;
  }
  const auto original = original_key(*table, key, layout);
  return prefix + (original ? original->name : key);
}

FileNames find_names(std::span<const io::TensorView* const> tensors, std::string_view part) {
  Names names;
  for (const io::TensorView* tensor : tensors) {
    names.insert(tensor->name);
  }
  // A ControlNet has the names of a UNet too.
  std::optional<FileNames> found = find_part(names, part.empty() ? kControlNet : part);
  if (!found && part.empty()) {
    found = find_network(names);
  }
  if (!found && part.empty()) {
    found = find_part(names, kVae);
  }
  if (!found) {
    return {};
  }
  std::vector<std::string_view> keys;
  for (const std::string_view name : names) {
    if (name.starts_with(found->prefix)) {
      keys.push_back(name.substr(found->prefix.size()));
    }
  }
  found->layout = layout_of(*found->table, keys);
  int64_t original = 0;  // keys that exist in this naming only
  for (const std::string_view key : keys) {
    const bool is_original = !diffusers_keys(*found->table, key, found->layout).empty();
    const bool is_diffusers = original_key(*found->table, key, found->layout).has_value();
    original += static_cast<int64_t>(is_original) - static_cast<int64_t>(is_diffusers);
  }
  found->naming = original > 0 ? Naming::ORIGINAL : Naming::DIFFUSERS;
  return *found;
}

}  // namespace kinema::model_files
