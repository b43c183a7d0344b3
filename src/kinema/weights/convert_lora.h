#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "kinema/core/dtype.h"

namespace kinema::weights {

/// The naming of a LoRA file's keys.
enum class LoraFormat : uint8_t {
  DIFFUSERS,  // `transformer.blocks.0.attn1.to_q.lora_A.weight`; alphas in the metadata
  ORIGINAL,   // `blocks.0.self_attn.q.lora_A.weight`, `.alpha`
  COMFYUI,    // `diffusion_model.blocks.0.self_attn.q.lora_down.weight`, `.alpha`; KOHYA for UNets
  KOHYA,      // `lora_unet_blocks_0_self_attn_q.lora_down.weight`, `.alpha`
};

/// `diffusers`, `original`, `comfyui` or `kohya`; throws an Error that lists these for another
/// name.
LoraFormat lora_format_from_string(const std::string& name);

/// Writes the LoRA in `source` (anything that Lora::open accepts) as the safetensors file `target`,
/// which must not exist. Without a dtype, tensors are bit-identical to the source's; the change of
/// the model's weights stays the same.
///
/// Pairs of modules that the original release joins become one pair, with the sum of their ranks if
/// their down matrices differ; rows that the source does not change are 0.
///
/// Throws the Errors of Lora::open, and an Error if the source has keys of unknown modules, or if
/// the format cannot contain it: full differences of weights (diffusers), both experts of Wan 2.2
/// (all but diffusers), or text encoders (original).
void convert_lora(const std::filesystem::path& source, const std::filesystem::path& target,
                  LoraFormat to, std::optional<DType> dtype = {});

}  // namespace kinema::weights
