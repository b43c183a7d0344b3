#include "kinema/weights/lora_key.h"

#include <algorithm>
#include <array>

#include "kinema/model_files/family.h"

namespace kinema::weights {
namespace {

struct Ending {
  std::string_view text;
  adapters::LoraPart part;
};

constexpr std::array kEndings{
    Ending{".lora_A.weight", adapters::LoraPart::DOWN},
    Ending{".lora_B.weight", adapters::LoraPart::UP},
    Ending{".lora_B.bias", adapters::LoraPart::UP_BIAS},
    Ending{".lora_down.weight", adapters::LoraPart::DOWN},
    Ending{".lora_up.weight", adapters::LoraPart::UP},
    Ending{".lora_up.bias", adapters::LoraPart::UP_BIAS},
    Ending{".lora.down.weight", adapters::LoraPart::DOWN},
    Ending{".lora.up.weight", adapters::LoraPart::UP},
    Ending{".lora.up.bias", adapters::LoraPart::UP_BIAS},
    Ending{"_lora.down.weight", adapters::LoraPart::DOWN},
    Ending{"_lora.up.weight", adapters::LoraPart::UP},
    Ending{".lora_linear_layer.down.weight", adapters::LoraPart::DOWN},
    Ending{".lora_linear_layer.up.weight", adapters::LoraPart::UP},
    Ending{".alpha", adapters::LoraPart::ALPHA},
    Ending{".diff", adapters::LoraPart::DIFF},
    Ending{".diff_b", adapters::LoraPart::DIFF_BIAS},
    Ending{".w_norm", adapters::LoraPart::DIFF},  // LyCORIS' names for those of norms
    Ending{".b_norm", adapters::LoraPart::DIFF_BIAS},
    Ending{".lora_mid.weight", adapters::LoraPart::MID},
    Ending{".hada_w1_a", adapters::LoraPart::HADA_W1_A},
    Ending{".hada_w1_b", adapters::LoraPart::HADA_W1_B},
    Ending{".hada_w2_a", adapters::LoraPart::HADA_W2_A},
    Ending{".hada_w2_b", adapters::LoraPart::HADA_W2_B},
    Ending{".hada_t1", adapters::LoraPart::HADA_T1},
    Ending{".hada_t2", adapters::LoraPart::HADA_T2},
    Ending{".lokr_w1", adapters::LoraPart::LOKR_W1},
    Ending{".lokr_w1_a", adapters::LoraPart::LOKR_W1_A},
    Ending{".lokr_w1_b", adapters::LoraPart::LOKR_W1_B},
    Ending{".lokr_w2", adapters::LoraPart::LOKR_W2},
    Ending{".lokr_w2_a", adapters::LoraPart::LOKR_W2_A},
    Ending{".lokr_w2_b", adapters::LoraPart::LOKR_W2_B},
    Ending{".lokr_t2", adapters::LoraPart::LOKR_T2},
    Ending{".oft_blocks", adapters::LoraPart::OFT_BLOCKS},
    Ending{".oft_R.weight", adapters::LoraPart::OFT_TRIANGLES},
    Ending{".rescale", adapters::LoraPart::RESCALE},
    Ending{".a1.weight", adapters::LoraPart::GLORA_A1},
    Ending{".a2.weight", adapters::LoraPart::GLORA_A2},
    Ending{".b1.weight", adapters::LoraPart::GLORA_B1},
    Ending{".b2.weight", adapters::LoraPart::GLORA_B2},
    Ending{".bm.weight", adapters::LoraPart::GLORA_BM},
    Ending{".on_input", adapters::LoraPart::IA3_INPUT},
    Ending{".ia3_l", adapters::LoraPart::IA3_FACTOR},
    Ending{".dora_scale", adapters::LoraPart::DORA_SCALE},
    Ending{".lora_magnitude_vector", adapters::LoraPart::MAGNITUDE},
    Ending{".lora_magnitude_vector.weight", adapters::LoraPart::MAGNITUDE},
};

// XLabs' names of whole pairs are modules here, with nothing before down and up.
constexpr std::array kXlabsEndings{
    Ending{".down.weight", adapters::LoraPart::DOWN},
    Ending{".up.weight", adapters::LoraPart::UP},
};
constexpr std::string_view kProcessor = ".processor.";

struct Split {
  std::string_view module;
  adapters::LoraPart part;
};

/// `double_blocks.0.processor.qkv_lora1`
bool is_xlabs(std::string_view module) {
  const size_t at = module.find(kProcessor);
  return at != std::string_view::npos &&
         (module.substr(0, at).find("double_blocks.") != std::string_view::npos ||
          module.substr(0, at).find("single_blocks.") != std::string_view::npos);
}

std::optional<Split> plain_ending(std::string_view key) {
  for (const Ending& ending : kXlabsEndings) {
    if (key.ends_with(ending.text) && is_xlabs(key.substr(0, key.size() - ending.text.size()))) {
      return Split{key.substr(0, key.size() - ending.text.size()), ending.part};
    }
  }
  for (const Ending& ending : kEndings) {
    if (key.ends_with(ending.text)) {
      return Split{key.substr(0, key.size() - ending.text.size()), ending.part};
    }
  }
  return std::nullopt;
}

/// `X.lora_A.NAME.weight`: PEFT inserts the adapter's name, usually `default`.
std::optional<Split> named_ending(std::string_view key) {
  for (const auto& [marker, part] :
       {std::pair(std::string_view(".lora_A."), adapters::LoraPart::DOWN),
        std::pair(std::string_view(".lora_B."), adapters::LoraPart::UP),
        std::pair(std::string_view(".oft_R."), adapters::LoraPart::OFT_TRIANGLES),
        std::pair(std::string_view(".lora_magnitude_vector."), adapters::LoraPart::MAGNITUDE)}) {
    const size_t at = key.rfind(marker);
    if (at == std::string_view::npos) {
      continue;
    }
    const std::string_view after = key.substr(at + marker.size());
    const size_t dot = after.find('.');
    const std::string_view leaf = dot == std::string_view::npos ? "" : after.substr(dot + 1);
    if (dot == 0 || (leaf != "weight" && !(leaf == "bias" && part == adapters::LoraPart::UP))) {
      continue;
    }
    return Split{key.substr(0, at), leaf == "bias" ? adapters::LoraPart::UP_BIAS : part};
  }
  return std::nullopt;
}

bool strip(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) {
    return false;
  }
  text.remove_prefix(prefix.size());
  return true;
}

struct Prefix {
  std::string_view text;
  LoraMember member;
};

constexpr std::array kDotted{
    Prefix{"transformer_2.", LoraMember::SECOND_NETWORK},
    Prefix{"transformer.", LoraMember::NETWORK},
    Prefix{"unet.", LoraMember::NETWORK},
    Prefix{"diffusion_model.", LoraMember::NETWORK},
    Prefix{"text_encoder.", LoraMember::TEXT_ENCODER},
    Prefix{"text_encoder_2.", LoraMember::TEXT_ENCODER_2},
    Prefix{"text_encoders.clip_l.transformer.", LoraMember::TEXT_ENCODER},
    Prefix{"text_encoders.clip_g.transformer.", LoraMember::TEXT_ENCODER_2},
    Prefix{"text_encoders.t5xxl.transformer.", LoraMember::TEXT_ENCODER_2},
    Prefix{"conditioner.embedders.0.transformer.", LoraMember::TEXT_ENCODER},
    Prefix{"conditioner.embedders.1.model.", LoraMember::TEXT_ENCODER_2},
};

constexpr std::array kUnderscored{
    Prefix{"lora_unet__", LoraMember::NETWORK},  // VideoX-Fun
    Prefix{"lora_unet_", LoraMember::NETWORK},
    Prefix{"lycoris_", LoraMember::NETWORK},  // SimpleTuner
    Prefix{"lora_transformer_", LoraMember::NETWORK},
    Prefix{"lora_te1_", LoraMember::TEXT_ENCODER},
    Prefix{"lora_te_", LoraMember::TEXT_ENCODER},
    Prefix{"lora_te2_", LoraMember::TEXT_ENCODER_2},
    Prefix{"lora_te3_", LoraMember::TEXT_ENCODER_2},  // T5, Flux's second text encoder
};

std::optional<LoraMember> strip_one(std::string_view& name, std::span<const Prefix> prefixes) {
  for (const Prefix& prefix : prefixes) {
    if (strip(name, prefix.text)) {
      return prefix.member;
    }
  }
  return std::nullopt;
}

bool is_text(LoraMember member) {
  return member == LoraMember::TEXT_ENCODER || member == LoraMember::TEXT_ENCODER_2;
}

/// The module of diffusers' `X.attn1.processor.to_out`, from before PEFT.
std::string without_processor(std::string_view name) {
  std::string out(name);
  if (const size_t at = out.find(kProcessor); at != std::string::npos) {
    out.erase(at, kProcessor.size() - 1);
    out += out.ends_with(".to_out") ? ".0" : "";
  }
  return out;
}

std::optional<model_files::NamedModule> read_any(std::string_view name, LoraMember member,
                                                 model_files::Spelling spelling,
                                                 const model_files::NameTable& network,
                                                 const model_files::Layout& layout) {
  const auto read = [&](const model_files::NameTable& table) {
    auto found = model_files::read_module(table, name, spelling, layout);
    const std::string plain = without_processor(name);
    return found || plain == name ? found
                                  : model_files::read_module(table, plain, spelling, layout);
  };
  if (!is_text(member)) {
    return read(network);
  }
  for (const model_files::NameTable* table :
       {&model_files::kClipNames, &model_files::kOpenClipNames, &model_files::kT5Names}) {
    if (auto found = read(*table)) {
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<LoraKey> read_lora_key(std::string_view key, const model_files::NameTable& network,
                                     const model_files::Layout& layout) {
  std::optional<Split> split = plain_ending(key);
  if (!split) {
    split = named_ending(key);
  }
  std::string whole_table;  // `blocks.0.diff_m`: the difference of blocks.0.modulation
  if (!split && key.ends_with(".diff_m")) {
    whole_table = std::string(key.substr(0, key.size() - 6)) + "modulation";
    split = Split{whole_table, adapters::LoraPart::DIFF};
  }
  // IA3's vector is called like a module's own weight, which no other format has under these names.
  constexpr std::string_view kWeight = ".weight";
  if (!split && key.ends_with(kWeight)) {
    split = Split{key.substr(0, key.size() - kWeight.size()), adapters::LoraPart::IA3_WEIGHT};
  }
  if (!split) {
    return std::nullopt;
  }
  std::string_view name = split->module;
  std::optional<LoraMember> member = strip_one(name, kUnderscored);
  const bool underscored = member.has_value();
  if (split->part == adapters::LoraPart::IA3_WEIGHT && !underscored) {
    return std::nullopt;
  }
  std::string without_dots;
  if (underscored && name.find('.') != std::string_view::npos) {
    without_dots = name;  // `lora_unet_blocks_0.self_attn.k`
    std::ranges::replace(without_dots, '.', '_');
    name = without_dots;
  } else if (!underscored) {
    // Wrappers of the module's name, in the order in which programs nest them.
    while (strip(name, "base_model.") || strip(name, "model.") || strip(name, "module.") ||
           strip(name, "pipe.dit.")) {
    }
    member = strip_one(name, kDotted);
  }
  LoraKey out{.pieces = {},
              .part = split->part,
              .naming = model_files::Naming::DIFFUSERS,
              .underscored = underscored,
              .member = member.value_or(LoraMember::NETWORK)};
  std::optional<model_files::NamedModule> module =
      read_any(name, out.member,
               underscored ? model_files::Spelling::UNDERSCORES : model_files::Spelling::DOTS,
               network, layout);
  if (!module) {
    return std::nullopt;
  }
  out.pieces = std::move(module->pieces);
  out.naming = module->naming;
  return out;
}

std::optional<LoraKey> read_lora_key(std::string_view key) {
  for (const model_files::Family& family : model_files::families()) {
    if (auto found = read_lora_key(key, *family.names)) {
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace kinema::weights
