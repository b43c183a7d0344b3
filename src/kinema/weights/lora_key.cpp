#include "kinema/weights/lora_key.h"

#include <algorithm>
#include <array>

namespace kinema::weights {
namespace {

struct Ending {
  std::string_view text;
  LoraPart part;
};

constexpr std::array kEndings{
    Ending{".lora_A.weight", LoraPart::DOWN},    Ending{".lora_B.weight", LoraPart::UP},
    Ending{".lora_B.bias", LoraPart::UP_BIAS},   Ending{".lora_down.weight", LoraPart::DOWN},
    Ending{".lora_up.weight", LoraPart::UP},     Ending{".lora_up.bias", LoraPart::UP_BIAS},
    Ending{".lora.down.weight", LoraPart::DOWN}, Ending{".lora.up.weight", LoraPart::UP},
    Ending{"_lora.down.weight", LoraPart::DOWN}, Ending{"_lora.up.weight", LoraPart::UP},
    Ending{".alpha", LoraPart::ALPHA},           Ending{".diff", LoraPart::DIFF},
    Ending{".diff_b", LoraPart::DIFF_BIAS},
};

struct Split {
  std::string_view module;
  LoraPart part;
};

std::optional<Split> plain_ending(std::string_view key) {
  for (const Ending& ending : kEndings) {
    if (key.ends_with(ending.text)) {
      return Split{key.substr(0, key.size() - ending.text.size()), ending.part};
    }
  }
  return std::nullopt;
}

/// `X.lora_A.NAME.weight`: PEFT writes the adapter's name, most often `default`, in between.
std::optional<Split> named_ending(std::string_view key) {
  for (const auto& [marker, part] : {std::pair(std::string_view(".lora_A."), LoraPart::DOWN),
                                     std::pair(std::string_view(".lora_B."), LoraPart::UP)}) {
    const size_t at = key.rfind(marker);
    if (at == std::string_view::npos) {
      continue;
    }
    const std::string_view after = key.substr(at + marker.size());
    const size_t dot = after.find('.');
    const std::string_view leaf = dot == std::string_view::npos ? "" : after.substr(dot + 1);
    if (dot == 0 || (leaf != "weight" && !(leaf == "bias" && part == LoraPart::UP))) {
      continue;
    }
    return Split{key.substr(0, at), leaf == "bias" ? LoraPart::UP_BIAS : part};
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

/// Removes what wraps the module's name, in the order in which the writers nest it.
std::string_view unwrapped(std::string_view name, bool& second) {
  while (strip(name, "base_model.") || strip(name, "model.") || strip(name, "module.") ||
         strip(name, "pipe.dit.")) {
  }
  second = strip(name, "transformer_2.");
  if (!second && !strip(name, "transformer.")) {
    strip(name, "diffusion_model.");
  }
  return name;
}

}  // namespace

std::optional<LoraKey> read_lora_key(std::string_view key) {
  std::optional<Split> split = plain_ending(key);
  if (!split) {
    split = named_ending(key);
  }
  std::string whole_table;  // `blocks.0.diff_m`: the difference of blocks.0.modulation
  if (!split && key.ends_with(".diff_m")) {
    whole_table = std::string(key.substr(0, key.size() - 6)) + "modulation";
    split = Split{whole_table, LoraPart::DIFF};
  }
  if (!split) {
    return std::nullopt;
  }
  LoraKey out{.module = "", .part = split->part, .naming = Naming::DIFFUSERS};
  std::string_view name = split->module;
  out.underscored = strip(name, "lora_unet_") || strip(name, "lora_transformer_");
  if (!out.underscored) {
    name = unwrapped(name, out.second);
  }
  const std::optional<ModuleName> module =
      out.underscored ? read_underscored(name) : read_module(name);
  if (!module) {
    return std::nullopt;
  }
  out.module = module->diffusers;
  out.naming = module->naming;
  return out;
}

std::string_view other_method(std::string_view key) {
  struct Mark {
    std::string_view text;
    std::string_view method;
  };
  constexpr std::array kMarks{
      Mark{".dora_scale", "DoRA"}, Mark{".lora_magnitude_vector", "DoRA"}, Mark{".hada_w", "LoHa"},
      Mark{".lokr_w", "LoKr"},     Mark{".lora_mid.", "Tucker LoCon"},
  };
  const auto found = std::ranges::find_if(
      kMarks, [&](const Mark& mark) { return key.find(mark.text) != std::string_view::npos; });
  return found == kMarks.end() ? "" : found->method;
}

}  // namespace kinema::weights
