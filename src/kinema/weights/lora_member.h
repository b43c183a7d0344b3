#pragma once

#include <cstdint>
#include <string_view>

namespace kinema::weights {

/// The model of a pipeline that a part of a LoRA file is for.
enum class LoraMember : uint8_t {
  NETWORK,         // the transformer or UNet; of two experts the high-noise one
  SECOND_NETWORK,  // the low-noise expert
  TEXT_ENCODER,
  TEXT_ENCODER_2,
};

/// True for T5's modules, false for CLIP's.
inline bool is_of_t5(std::string_view module) { return module.starts_with("encoder.block."); }

}  // namespace kinema::weights
