#pragma once

#include <cstdint>
#include <string_view>

#include "kinema/kernels/gpu/triton_flash.h"

/// Which tiles the Triton kernels work on, and whether they fit a multiprocessor's shared memory.
namespace kinema::kernels::triton {

/// Generations of multiprocessors that differ in what a block of threads may take.
enum class Architecture : uint8_t {
  AMPERE,         // A100
  ADA,            // L4, L40S, RTX 4090 and what is not known
  HOPPER,         // H100, H200, GH200
  BLACKWELL,      // B200, B300
  RTX_BLACKWELL,  // RTX 5090
};

/// Of a chip as plugins ("NVIDIA H100 80GB HBM3") or their makers ("NVIDIA H100 SXM") call it.
Architecture architecture_of(std::string_view chip);

/// Shared memory that a block of threads may have, in bytes.
int64_t most_shared_bytes(Architecture architecture);

/// Shared memory that a kernel takes, in bytes: blocks whose loads are under way, and operands that
/// tensor cores read from there. What the compiler says, or more.
int64_t shared_bytes(const FlashWork& work, FlashPass pass, Architecture architecture);

/// The work with the tile that is best for it on a chip, by registers, spilled registers and shared
/// memory as the compiler reports them. Throws an Error where none fits.
FlashWork with_tile(FlashWork work, FlashPass pass, std::string_view chip);

}  // namespace kinema::kernels::triton
