#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/adapters/lora_part.h"
#include "kinema/model_files/names.h"
#include "kinema/weights/lora_member.h"

namespace kinema::weights {

struct LoraKey {
  /// The module, or the several that the original joins, under diffusers' names:
  /// `blocks.0.attn1.to_q`.
  std::vector<model_files::Piece> pieces;
  adapters::LoraPart part;
  model_files::Naming naming;  // of the module
  bool underscored = false;    // kohya's `lora_unet_blocks_0_self_attn_q`
  LoraMember member = LoraMember::NETWORK;
};

/// Reads a key of any known format, for a network with these names or one of its text encoders.
/// Formats are diffusers and PEFT (prefixed by `transformer.`, `unet.`, `text_encoder.` or
/// `base_model.model.`, with an adapter's name after `lora_A`), diffusers before PEFT
/// (`.processor.to_q_lora.down`), ComfyUI and the original release (`diffusion_model.`), kohya and
/// musubi (`lora_unet_`, `lora_te1_`), LyCORIS (`lycoris_`), XLabs, and keys without a prefix.
///
/// Returns nothing for other keys and unknown modules.
std::optional<LoraKey> read_lora_key(std::string_view key, const model_files::NameTable& network,
                                     const model_files::Layout& layout = {});
/// The same for the first family that has such a module.
std::optional<LoraKey> read_lora_key(std::string_view key);

}  // namespace kinema::weights
