#pragma once

#include <cstdint>
#include <string_view>

#include "kinema/kernels/gpu/triton_flash.h"

/// Tiles of the Triton kernels, and whether they fit a multiprocessor's shared memory.
namespace kinema::kernels::triton {

/// Generations of multiprocessors that differ in their tensor cores or shared memory.
enum class Architecture : uint8_t {
  AMPERE,     // A100
  HOPPER,     // H100, H200, GH200
  BLACKWELL,  // B200, B300
  CARD,       // L4, L40S, RTX 4090, RTX 5090 and unknown chips: the least memory
};

/// The architecture of a chip by its name in plugins ("NVIDIA H100 80GB HBM3"), by its maker or in
/// plans ("h100").
Architecture gpu_architecture(std::string_view chip);

/// Shared memory limit of a block of threads, in bytes.
int64_t max_shared_bytes(Architecture architecture);

/// Shared memory that a kernel needs, in bytes: its own rows, blocks being loaded, and operands of
/// the tensor cores. For the tiles here at least what the compiler reports.
int64_t shared_bytes(FlashPass pass, const FlashWork& work, Architecture architecture);

/// The tile that a kernel is compiled with on a chip: the largest that was measured not to spill
/// registers, with as many concurrent loads as shared memory permits.
FlashTile best_tile(FlashPass pass, const FlashWork& work, std::string_view chip);

/// Throws an Error if the work's tile needs more shared memory than the chip has: the compiler
/// would fail or abort the process.
void check_fits(FlashPass pass, const FlashWork& work, std::string_view chip);

}  // namespace kinema::kernels::triton
