#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kinema/kernels/settings.h"
#include "kinema/kernels/tpu/flash.h"

/// Tiles of the kernels, and whether they fit a core's on-chip memory (VMEM).
namespace kinema::kernels {

/// VMEM limits of a kernel on one core.
struct Vmem {
  int64_t by_default = 0;
  int64_t at_most = 0;
};
/// The limits of a chip by its name in plugins ("TPU v6 lite") or by its maker ("TPU v6e"); an
/// unknown chip gets the lowest of all.
Vmem vmem_limits(std::string_view chip);

/// Why the kernels do not support a head width and dtype, and the nearest supported one; empty if
/// they do.
std::string flash_refusal(int64_t width, DType dtype);

/// One of the kernels, for what differs between them.
enum class FlashPass : uint8_t { FORWARD, BACKWARD_DKV, BACKWARD_FUSED, BACKWARD_DQ };

/// Upper estimate of a kernel's VMEM: blocks twice, for double buffering, then scratch, and scores
/// with their weights. Within 5 to 30 % of the compiler's number.
int64_t vmem_bytes(const FlashWork& work, FlashPass pass);

/// The block sizes with the best schedule on a chip for this number of keys, by the compiler's own
/// estimates (bench/attention_tiles.cpp).
FlashBlockSizes best_block_sizes(std::string_view chip, int64_t keys);

/// How the forward kernel handles maxima on a chip with this number of keys: EITHER if a fixed
/// maximum saves more than it costs to find out whether it is possible.
FlashMaximum best_maximum(std::string_view chip, int64_t keys);

/// The sizes that a chip's kernels use for requested ones, at any length: multiples of 128, parts
/// that divide their blocks, within VMEM, a valid VMEM limit that fits the smallest kernels, and a
/// divisor of the heads.
FlashBlockSizes supported_block_sizes(const FlashBlockSizes& asked, int64_t heads, int64_t width,
                                      DType dtype, std::string_view chip);

/// Unpadded lengths of one call.
struct FlashLengths {
  int64_t heads = 1;
  int64_t queries = 1;
  int64_t keys = 1;
  int64_t width = 1;
};

/// A kernel's work on these lengths: as few blocks as the sizes permit, all equal, multiples of
/// 128, and within VMEM. The backward kernels pad queries and keys alike, so that their operands
/// are padded only once.
FlashWork flash_work(const FlashLengths& lengths, FlashPass pass, DType dtype, DType result,
                     const FlashBlockSizes& sizes, std::string_view chip);

/// The VMEM limit to pass to the compiler; 0: its default suffices. A requested limit is raised for
/// a kernel that does not fit even with smaller tiles.
int64_t vmem_limit(const FlashWork& work, FlashPass pass, const FlashBlockSizes& sizes,
                   std::string_view chip);

}  // namespace kinema::kernels
