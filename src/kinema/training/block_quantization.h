#pragma once

#include <cstdint>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/nn/params.h"

/// Numbers stored as bytes in blocks of 256, with the maximum magnitude of each block, by the
/// dynamic map of bitsandbytes (arXiv:2110.02861, arXiv:1511.04561; create_dynamic_map and
/// quantize_blockwise of its functional.py).
///
/// A byte stands for a share of its block's magnitude: 0, 1, or one of 2^i numbers in the middle of
/// as many equal parts of a decade's upper nine tenths, of finer parts in larger decades:
///
///   10^(i - n) (0.1 + 0.9 (k + 1/2) / 2^i),   k = 0 ... 2^i - 1
///
/// with i = 0 ... n and n = 6, both signs, where there is one (-1 alone is missing), and i = 1 ...
/// n and n = 7 where there is none. Bytes are in the order of these numbers; the nearest is taken.
///
/// Blocks lie along rows: the fewest trailing axes of a layer that hold 256 elements together, seen
/// as one. The last block of a row may be shorter. Where rows are a multiple of 256 long, blocks
/// are those of the flattened tensor. They do not depend on a mesh, so a checkpoint has the same
/// bytes whatever wrote it; where a mesh splits rows elsewhere than between blocks, devices
/// exchange the values for an update.
namespace kinema::training {

inline constexpr int64_t kBlockSize = 256;

enum class Signed : bool { NO, YES };

struct Blocks {
  Tensor codes;   // U8, the shape of the values
  Tensor absmax;  // F32 [..., blocks of a row]
};

/// Elements of a row of one layer.
int64_t row_width(const nn::ParamSpec& spec);

/// Codes and magnitudes of a parameter as specs: its name, and `NAME.absmax`.
std::vector<nn::ParamSpec> block_specs(const nn::ParamSpec& spec);

/// Values F32 in rows of so many elements as blocks. Values that are not finite give any codes.
Blocks quantized(Tensor values, int64_t width, Signed is_signed);
/// And back, F32.
Tensor dequantized(const Blocks& blocks, int64_t width, Signed is_signed);

}  // namespace kinema::training
