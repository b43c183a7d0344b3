#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "kinema/core/dtype.h"

namespace kinema::weights {

/// How the keys of a LoRA file are spelt.
enum class LoraFormat : uint8_t {
  DIFFUSERS,  // `transformer.blocks.0.attn1.to_q.lora_A.weight`; alphas in the metadata
  ORIGINAL,   // `blocks.0.self_attn.q.lora_A.weight`, `.alpha`
  COMFYUI,  // `diffusion_model.blocks.0.self_attn.q.lora_down.weight`, `.alpha`; of UNets as KOHYA
  KOHYA,    // `lora_unet_blocks_0_self_attn_q.lora_down.weight`, `.alpha`
};

/// `diffusers`, `original`, `comfyui` or `kohya`; throws an Error naming these for another word.
LoraFormat lora_format_from_string(const std::string& name);

/// Writes the LoRA in `source` (anything Lora::open takes) as the safetensors file `target`, which
/// must not be there yet. Tensors are those of the source, to the bit without a dtype, and
/// what is added to a model's weights stays the same.
///
/// Pairs of modules that the original release joins become one pair, whose rank is the sum of
/// theirs where their downs differ; rows of what the source does not change are 0.
///
/// Throws what Lora::open throws, and an Error when the source has keys that name no module that is
/// known, or when the format cannot hold it: differences of whole weights (diffusers), both experts
/// of Wan 2.2 (all but diffusers), or text encoders (original).
void convert_lora(const std::filesystem::path& source, const std::filesystem::path& target,
                  LoraFormat to, std::optional<DType> dtype = {});

}  // namespace kinema::weights
