#pragma once

#include <cstdint>

#include "kinema/core/dtype.h"

namespace kinema::kernels {

/// F32 products on the calling thread, with operands packed as in K. Goto and R. van de Geijn,
/// "Anatomy of High-Performance Matrix Multiplication" (2008): a panel is [depth, lines], where
/// lines are rows of a or columns of b. All functions need isa() >= Isa::Avx2.

/// Lines in a panel of a, and of b.
struct PanelTile {
  int64_t rows, columns;
};
PanelTile panel_tile();

/// A panel of b and the tile's part of a stay in L1.
constexpr int64_t kPanelDepth = 256;

/// Rows of a that are packed together, a multiple of every tile: at that depth 192 KiB, half of the
/// smallest L2 (256 KiB to 2 MiB).
constexpr int64_t kPanelRows = 192;

/// Floats that may be written past the last panel.
constexpr int64_t kPanelSpare = 8;

/// An operand as lines x depth, F32 or BF16; one stride must be 1.
struct PanelOperand {
  DType dtype;
  const char* data;
  int64_t line_stride, depth_stride;

  PanelOperand at(int64_t line, int64_t depth) const {
    return {dtype, data + (line * line_stride + depth * depth_stride) * byte_size(dtype),
            line_stride, depth_stride};
  }
};

/// Packs panels of `width` lines, contiguous, as F32; the last one is padded with zeros.
void pack_panels(const PanelOperand& from, int64_t lines, int64_t width, int64_t depth, float* to);

/// c[rows, columns] = or += a b over `depth`, for contiguous panels. Rows of c are c_row apart. The
/// summation order depends only on the depth.
void multiply_panels(int64_t rows, int64_t columns, int64_t depth, const float* a, const float* b,
                     float* c, int64_t c_row, bool add);

}  // namespace kinema::kernels
