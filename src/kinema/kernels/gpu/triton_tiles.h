#pragma once

#include <cstdint>
#include <string_view>

#include "kinema/kernels/gpu/triton_flash.h"

/// Which tiles the Triton kernels work on, and whether they fit a multiprocessor's shared memory.
namespace kinema::kernels::triton {

/// Generations of multiprocessors that differ in their tensor cores or shared memory.
enum class Architecture : uint8_t {
  AMPERE,     // A100
  HOPPER,     // H100, H200, GH200
  BLACKWELL,  // B200, B300
  CARD,       // L4, L40S, RTX 4090, RTX 5090, and what is not known: they have the least memory
};

/// Of a chip as plugins ("NVIDIA H100 80GB HBM3"), their makers or plans ("h100") call it.
Architecture architecture_of(std::string_view chip);

/// Shared memory that a block of threads may have, in bytes.
int64_t most_shared_bytes(Architecture architecture);

/// Shared memory that a kernel takes, in bytes: what stays, blocks whose loads are under way, and
/// what tensor cores read from there. For the tiles here, what the compiler says or more.
int64_t shared_bytes(FlashPass pass, const FlashWork& work, Architecture architecture);

/// The tile with which a kernel is compiled for a chip: the largest that was found not to spill
/// registers, with as many loads under way as shared memory takes.
FlashTile best_tile(FlashPass pass, const FlashWork& work, std::string_view chip);

/// Throws an Error where the work's tile takes more shared memory than the chip has: the compiler
/// would refuse it, or end.
void check_fits(FlashPass pass, const FlashWork& work, std::string_view chip);

}  // namespace kinema::kernels::triton
