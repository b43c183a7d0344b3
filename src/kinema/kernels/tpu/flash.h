#pragma once

#include <cstdint>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/kernels/kernel_text.h"

/// Blockwise attention as Mosaic kernels: arXiv:2205.14135 (algorithm 1) and arXiv:2307.08691
/// (algorithms 1 and 2), scores never leave the chip.
namespace kinema::kernels {

/// What the forward kernel subtracts from a row of scores before their exponentials.
enum class FlashMaximum : uint8_t {
  RUNNING,  // the largest so far
  FIXED,    // nothing: for scores within kFixedMaximumBound, with at least one key
  /// Chosen per tile of heads by an operand s32 [heads / heads_per_tile] before the windows: FIXED
  /// where it is not 0.
  EITHER,
};

/// Bound on scores, as powers of two, below which no maximum is needed: weights lie between 2^-50
/// and 2^50, so that sums of 10^5 of them, and products with values, stay well within f32. bf16
/// weights are rounded with relative error 2^-8, as with a maximum; but no weight is exactly 1, so
/// rounding also shows in rows that one key dominates.
inline constexpr double kFixedMaximumBound = 50.0;

/// The shapes and settings of one kernel. Lengths are padded to multiples of their blocks, the
/// width to a multiple of 128.
struct FlashWork {
  int64_t heads = 1;  // of all samples
  int64_t queries = 128;
  int64_t keys = 128;
  int64_t width = 128;
  DType dtype = DType::BF16;   // of q, k, v, dy: BF16 or F32
  DType result = DType::BF16;  // of the results except lse
  double scale = 1.0;
  /// The number of valid keys, which are the first ones. If `prefetched`, an operand s32 [1] before
  /// all others gives it instead; it may be 0.
  int64_t counted = 128;
  bool prefetched = false;
  /// Compute exponentials as powers of two, which takes fewer steps on TPUs.
  bool base2 = true;
  FlashMaximum maximum = FlashMaximum::RUNNING;  // of the forward kernel

  // Tile of a grid step, and the number of keys it processes at a time.
  int64_t block_q = 128;
  int64_t block_kv = 128;
  int64_t block_kv_compute = 128;
  int64_t heads_per_tile = 1;
};

/// A kernel with the shapes of its call, operands in order.
struct FlashKernel {
  KernelText text;
  std::vector<Shape> operands;
  std::vector<Shape> results;
  // For the compiler's scheduler, and for plans.
  double flops = 0;
  double exponentials = 0;
  double hbm_bytes = 0;
};

/// [keys,] [tiles,] q [n, s, d], k, v [n, t, d] -> y [n, s, d], lse f32 [n, 1, s] (natural
/// logarithm).
FlashKernel flash_forward(const FlashWork& work);

/// [keys,] q, k, v, dy [n, s, d], lse and delta f32 [n, 1, s] -> dk, dv [n, t, d]; if `fused`,
/// preceded by the parts of dq [t / block_kv, n, s, d], to be summed over the first axis.
FlashKernel flash_backward_dkv(const FlashWork& work, bool fused);

/// The same operands -> dq [n, s, d].
FlashKernel flash_backward_dq(const FlashWork& work);

}  // namespace kinema::kernels
