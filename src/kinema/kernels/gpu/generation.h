#pragma once

#include <cstdint>
#include <string_view>

namespace kinema::kernels {

/// GPU architecture, as far as kernels differ by it. Consumer cards count as AMPERE, which has the
/// tightest limits.
enum class Generation : uint8_t { AMPERE, HOPPER, BLACKWELL };

/// The generation of a chip by its name in plugins ("NVIDIA H100 80GB HBM3"), by its maker or in
/// plans ("h100").
Generation gpu_generation(std::string_view chip);

}  // namespace kinema::kernels
