#pragma once

#include <cstdint>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/kernels/kernel_text.h"

/// Blockwise attention as Triton kernels: arXiv:2205.14135 (algorithm 1) and arXiv:2307.08691
/// (algorithms 1 and 2), scores never leave the chip. Arrays are read in place: [b, s, n, d].
namespace kinema::kernels::triton {

enum class FlashPass : uint8_t { FORWARD, BACKWARD_DKV, BACKWARD_DQ };

/// The tile of one program of the grid, and its number of threads.
struct FlashTile {
  int64_t block_q = 64;  // powers of two, 16 or more
  int64_t block_kv = 64;
  int64_t warps = 4;  // of 32 threads; a power of two
  /// Blocks that are loaded or computed at the same time.
  int64_t stages = 2;
  bool operator==(const FlashTile&) const = default;
};

/// The shapes and settings of one call.
struct FlashWork {
  int64_t batch = 1;
  int64_t queries = 1;  // any length, as are the following
  int64_t keys = 1;
  int64_t heads = 1;
  int64_t width = 64;
  DType dtype = DType::BF16;   // of q, k, v, dy: BF16, F16 or F32
  DType result = DType::BF16;  // of the results except lse
  double scale = 1.0;          // above 0
  /// The last operand, an S32 scalar, is the number of valid keys: 0 ... keys.
  bool keys_given = false;
  FlashTile tile = {};

  /// Row length of a tile: a power of two, 16 or more.
  int64_t padded_width() const;
};

/// A kernel with the shapes of its call, operands in order.
struct FlashKernel {
  KernelText text;
  FlashTile tile;
  std::vector<Shape> operands;
  std::vector<Shape> results;
};

/// q [b, s, n, d], k, v [b, t, n, d] [, keys] -> y [b, s, n, d], lse f32 [b, n, s], the natural
/// logarithm. With 0 keys y is 0 and lse about -1e38.
FlashKernel flash_forward(const FlashWork& work);

/// q, k, v, lse f32 [b, n, s], delta f32 [b, n, s], dy [b, s, n, d] [, keys] -> dk, dv [b, t, n,
/// d]; 0 for masked keys.
FlashKernel flash_backward_dkv(const FlashWork& work);

/// The same operands -> dq [b, s, n, d].
FlashKernel flash_backward_dq(const FlashWork& work);

/// The kernel of a pass.
FlashKernel flash_kernel(FlashPass pass, const FlashWork& work);

}  // namespace kinema::kernels::triton
