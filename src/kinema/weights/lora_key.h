#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kinema/weights/names.h"

namespace kinema::weights {

/// What a tensor of a LoRA file is to its module.
enum class LoraPart {
  DOWN,       // [rank, in]: `lora_A.weight`, `lora_down.weight`, `lora.down.weight`
  UP,         // [out, rank]: `lora_B.weight`, `lora_up.weight`, `lora.up.weight`
  UP_BIAS,    // [out], scaled as the product: `lora_B.bias`
  ALPHA,      // a number: `alpha`
  DIFF,       // difference of the weight, or of a parameter that is no module's: `diff`
  DIFF_BIAS,  // difference of the bias: `diff_b`
};

struct LoraKey {
  std::string module;  // diffusers' name: `blocks.0.attn1.to_q`
  LoraPart part;
  Naming naming;             // of the module
  bool underscored = false;  // kohya's `lora_unet_blocks_0_self_attn_q`
  bool second = false;       // begins with `transformer_2.`: for the low-noise expert
};

/// Reads a key of any of the formats in use. These are diffusers and PEFT (`transformer.` or
/// `base_model.model.` before, an adapter's name after `lora_A`), ComfyUI and original Wan
/// (`diffusion_model.`), kohya and musubi (`lora_unet_`), and keys with no prefix.
///
/// Nothing for a key that is none of these or names no module of a Wan transformer.
std::optional<LoraKey> read_lora_key(std::string_view key);

/// The method, when a key's ending belongs to one that is not low-rank addition (`DoRA`, `LoHa`,
/// `LoKr`, `Tucker LoCon`); empty otherwise.
std::string_view other_method(std::string_view key);

}  // namespace kinema::weights
