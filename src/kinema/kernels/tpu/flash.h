#pragma once

#include <cstdint>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/kernels/kernel_text.h"

/// Attention in blocks as Mosaic kernels: arXiv:2205.14135 (algorithm 1) and arXiv:2307.08691
/// (algorithms 1 and 2), scores never leave the chip.
namespace kinema::kernels {

/// What the forward kernel takes off the scores of a row before their exponentials.
enum class FlashMaximum : uint8_t {
  RUNNING,  // the largest so far
  FIXED,    // nothing: for scores within kFixedMaximumBound, of at least one key
  /// By tile of heads: an operand s32 [heads / heads_per_tile] before the windows says FIXED where
  /// it is not 0.
  EITHER,
};

/// Magnitude of scores, as powers of two, with which weights need no maximum: they lie within
/// 2^-50 and 2^50, so that sums of 10^5 of them, and products with values, are far within f32.
/// In bf16 weights are rounded by 2^-8 of themselves, as with a maximum; but no weight is exactly
/// 1, so that this shows in rows that one key dominates too.
inline constexpr double kFixedMaximumBound = 50.0;

/// One kernel's work. Lengths and width are filled up: multiples of their blocks and of 128.
struct FlashWork {
  int64_t heads = 1;  // of all samples
  int64_t queries = 128;
  int64_t keys = 128;
  int64_t width = 128;
  DType dtype = DType::BF16;   // of q, k, v, dy: BF16 or F32
  DType result = DType::BF16;  // of what the kernel gives, but for lse
  double scale = 1.0;
  /// Keys that count, the first ones. Where `prefetched`, an operand s32 [1] before all others says
  /// how many instead; it may be 0.
  int64_t counted = 128;
  bool prefetched = false;
  /// Exponentials as powers of two, which TPUs compute in fewer steps.
  bool base2 = true;
  FlashMaximum maximum = FlashMaximum::RUNNING;  // of the forward kernel

  // Tiles: what a step of the grid works on, and how many keys of it at a time.
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
  // For the compiler's schedule, and for plans.
  double flops = 0;
  double exponentials = 0;
  double hbm_bytes = 0;
};

/// [keys,] [tiles,] q [n, s, d], k, v [n, t, d] -> y [n, s, d], lse f32 [n, 1, s] (natural
/// logarithm).
FlashKernel flash_forward(const FlashWork& work);

/// [keys,] q, k, v, dy [n, s, d], lse and delta f32 [n, 1, s] -> dk, dv [n, t, d]; where `fused`,
/// before them the parts of dq [t / block_kv, n, s, d] that are to be summed up.
FlashKernel flash_backward_dkv(const FlashWork& work, bool fused);

/// The same operands -> dq [n, s, d].
FlashKernel flash_backward_dq(const FlashWork& work);

}  // namespace kinema::kernels
