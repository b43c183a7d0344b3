#pragma once

#include <cstdint>
#include <string_view>

namespace kinema::weights {

/// Which model of a pipeline a part of a LoRA file is for.
enum class LoraMember : uint8_t {
  NETWORK,         // the transformer or UNet; of two experts the one for high noise
  SECOND_NETWORK,  // the one for low noise
  TEXT_ENCODER,
  TEXT_ENCODER_2,
};

/// Whether a text encoder's module is T5's; else it is CLIP's.
inline bool is_of_t5(std::string_view module) { return module.starts_with("encoder.block."); }

}  // namespace kinema::weights
