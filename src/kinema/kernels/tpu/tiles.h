#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kinema/kernels/settings.h"
#include "kinema/kernels/tpu/flash.h"

/// Which tiles a kernel works on, and whether they fit a core's on-chip memory (VMEM).
namespace kinema::kernels {

/// What a kernel may use of a core's VMEM.
struct Vmem {
  int64_t by_default = 0;
  int64_t at_most = 0;
};
/// Of a chip as plugins ("TPU v6 lite") or their makers ("TPU v6e") call it; the least of all chips
/// for one that is not known.
Vmem vmem_of(std::string_view chip);

/// Why the kernels do not take heads of a width in a dtype, with the nearest that they take; empty
/// where they do.
std::string flash_refusal(int64_t width, DType dtype);

/// One of the kernels, for what differs between them.
enum class FlashPass : uint8_t { FORWARD, BACKWARD_DKV, BACKWARD_FUSED, BACKWARD_DQ };

/// VMEM that a kernel takes, from above: blocks are held twice, so that the next ones arrive while
/// these are worked on; then scratch, and scores with their weights. Within 5 to 30 % of what the
/// compiler says.
int64_t vmem_bytes(const FlashWork& work, FlashPass pass);

/// The sizes with which the compiler's schedule is best on a chip for so many keys, found by its
/// own estimates (bench/attention_tiles.cpp).
FlashBlockSizes best_block_sizes(std::string_view chip, int64_t keys);

/// What the forward kernel does about maxima on a chip with so many keys: EITHER where a fixed one
/// saves more than finding out whether it will do costs.
FlashMaximum best_maximum(std::string_view chip, int64_t keys);

/// What a chip's kernels take in place of sizes that are asked for, at any length: multiples of
/// 128, parts that divide their blocks, no more than VMEM holds, a limit of VMEM that the chip has
/// and the least kernels fit, and heads at a time of which there are so many.
FlashBlockSizes taken_block_sizes(const FlashBlockSizes& asked, int64_t heads, int64_t width,
                                  DType dtype, std::string_view chip);

/// Lengths of one call before they are filled up.
struct FlashLengths {
  int64_t heads = 1;
  int64_t queries = 1;
  int64_t keys = 1;
  int64_t width = 1;
};

/// A kernel's work on these lengths: as few blocks as the sizes allow, all equal, multiples of 128,
/// and no larger than VMEM takes. The backward kernels fill up queries and keys alike, so that
/// their operands are filled up once.
FlashWork flash_work(const FlashLengths& lengths, FlashPass pass, DType dtype, DType result,
                     const FlashBlockSizes& sizes, std::string_view chip);

/// What the compiler is to give a kernel of VMEM; 0: its default is enough. What is asked for is
/// raised for a kernel that no smaller tiles make fit.
int64_t vmem_limit(const FlashWork& work, FlashPass pass, const FlashBlockSizes& sizes,
                   std::string_view chip);

}  // namespace kinema::kernels
