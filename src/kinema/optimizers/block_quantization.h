#pragma once

#include <cstdint>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/nn/params.h"

/// Numbers stored as bytes in blocks of 256, with the maximum magnitude of each block, by the
/// dynamic map of bitsandbytes (arXiv:2110.02861, arXiv:1511.04561; create_dynamic_map and
/// quantize_blockwise of its functional.py).
///
/// A byte encodes a fraction of its block's magnitude: 0, 1, or the midpoint of one of 2^i equal
/// parts of a decade's upper nine tenths, with finer parts in larger decades:
///
///   10^(i - n) (0.1 + 0.9 (k + 1/2) / 2^i),   k = 0 ... 2^i - 1
///
/// with i = 0 ... n and n = 6 for signed values (both signs, except that -1 is missing), and i = 1
/// ... n and n = 7 for unsigned ones. Bytes are in the order of these numbers; values are rounded
/// to the nearest.
///
/// Blocks run along rows: the fewest trailing axes of a layer that together have 256 elements,
/// flattened. The last block of a row may be shorter. If the row length is a multiple of 256,
/// blocks are those of the flattened tensor. They do not depend on the mesh, so neither do a
/// checkpoint's bytes; if a mesh shards rows inside a block, devices exchange the values for an
/// update.
namespace kinema::optimizers {

inline constexpr int64_t kBlockSize = 256;

enum class Signed : bool { NO, YES };

struct Blocks {
  Tensor codes;   // U8, the shape of the values
  Tensor absmax;  // F32 [..., blocks of a row]
};

/// Elements of a row of one layer.
int64_t row_width(const nn::ParamSpec& spec);

/// True for moments that 8-bit optimizers store in blocks: of tensors with at least 4096 elements,
/// bitsandbytes' min_8bit_size.
bool is_in_blocks(const nn::ParamSpec& spec);

/// Codes and magnitudes of a parameter as specs: its name, and `NAME.absmax`.
std::vector<nn::ParamSpec> block_specs(const nn::ParamSpec& spec);

/// Quantizes F32 values in rows of `width` elements. Non-finite values get arbitrary codes.
Blocks quantized(Tensor values, int64_t width, Signed is_signed);
/// The inverse, F32.
Tensor dequantized(const Blocks& blocks, int64_t width, Signed is_signed);

}  // namespace kinema::optimizers
