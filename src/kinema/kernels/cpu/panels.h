#pragma once

#include <cstdint>

#include "kinema/core/dtype.h"

namespace kinema::kernels {

/// Products of F32 on the calling thread, of operands packed as in K. Goto and R. van de Geijn,
/// "Anatomy of High-Performance Matrix Multiplication" (2008): a panel is [depth, lines], where
/// lines are rows of a or columns of b. All needs isa() >= Isa::Avx2.

/// Lines of a panel of a, and of b.
struct PanelTile {
  int64_t rows, columns;
};
PanelTile panel_tile();

/// A panel of b with the tile's share of a stays in a core's first cache.
constexpr int64_t kPanelDepth = 256;

/// Rows of a that are packed together, a multiple of every tile: with that depth 192 KiB, half of
/// the smallest second cache (256 KiB to 2 MiB).
constexpr int64_t kPanelRows = 192;

/// Floats that are written behind the last panel.
constexpr int64_t kPanelSpare = 8;

/// An operand as lines x depth, F32 or BF16, one of whose strides is 1.
struct PanelOperand {
  DType dtype;
  const char* data;
  int64_t line_stride, depth_stride;

  PanelOperand at(int64_t line, int64_t depth) const {
    return {dtype, data + (line * line_stride + depth * depth_stride) * byte_size(dtype),
            line_stride, depth_stride};
  }
};

/// Panels of `width` lines, one after the other, F32; the last one is filled with zeros.
void pack_panels(const PanelOperand& from, int64_t lines, int64_t width, int64_t depth, float* to);

/// c[rows, columns] = or += a b over `depth`, of panels that lie one after the other. Rows of c are
/// c_row apart. Every element is summed in an order that depends on the depth alone.
void multiply_panels(int64_t rows, int64_t columns, int64_t depth, const float* a, const float* b,
                     float* c, int64_t c_row, bool add);

}  // namespace kinema::kernels
