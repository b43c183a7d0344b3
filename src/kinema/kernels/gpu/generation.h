#pragma once

#include <cstdint>
#include <string_view>

namespace kinema::kernels {

/// What kernels ask of a GPU: its architecture, as far as they differ by it. Cards of consumers
/// count as AMPERE, whose limits are the narrowest.
enum class Generation : uint8_t { AMPERE, HOPPER, BLACKWELL };

/// Of a chip as plugins ("NVIDIA H100 80GB HBM3"), their makers or plans ("h100") call it.
Generation generation_of(std::string_view chip);

}  // namespace kinema::kernels
