#pragma once

#include <cstdint>

namespace kinema::weights {

/// Which model of a pipeline a part of a LoRA file is for.
enum class LoraMember : uint8_t {
  NETWORK,         // the transformer or UNet; of two experts the one for high noise
  SECOND_NETWORK,  // the one for low noise
  TEXT_ENCODER,
  TEXT_ENCODER_2,
};

}  // namespace kinema::weights
