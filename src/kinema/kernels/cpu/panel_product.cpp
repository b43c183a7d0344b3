#include "kinema/kernels/cpu/panel_product.h"

#include <algorithm>

#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/float_loops.h"
#include "kinema/kernels/cpu/panels.h"
#include "kinema/kernels/cpu/rounding.h"

namespace kinema::kernels {
namespace {

// Block sizes: a's 192 KiB are about half of the smallest L2 (256 KiB to 2 MiB); b's block stays in
// the last-level cache.
constexpr int64_t kColumns = 768;  // of b: a multiple of every tile
// Rows that share a packed block of b. Their sums are kept in a compact buffer until all of k is
// added: rows of a wide result are pages apart, so a tile would touch a page per row.
constexpr int64_t kTallestSums = 1024;

}  // namespace

void panel_product(const StridedDot& dot, DType a_type, DType b_type, DType c_type, const char* a,
                   const char* b, char* c, const float* bias) {
  thread_local Buffer a_buffer;
  thread_local Buffer b_buffer;
  thread_local Buffer sums_buffer;
  const PanelTile tile = panel_tile();
  const PanelOperand left{a_type, a, dot.a_m, dot.a_k};
  const PanelOperand right{b_type, b, dot.b_n, dot.b_k};
  const int64_t depth = std::min(dot.k, kPanelDepth);
  const int64_t height = std::min(dot.m, kTallestSums);
  const int64_t width = std::min(dot.n, kColumns);
  float* a_block =
      a_buffer.floats(round_up(std::min(dot.m, kPanelRows), tile.rows) * depth + kPanelSpare);
  float* b_block = b_buffer.floats(round_up(width, tile.columns) * depth + kPanelSpare);
  float* sums = sums_buffer.floats(height * width);
  for (int64_t row = 0; row < dot.m; row += height) {
    const int64_t rows = std::min(height, dot.m - row);
    for (int64_t column = 0; column < dot.n; column += width) {
      const int64_t columns = std::min(width, dot.n - column);
      for (int64_t k = 0; k < dot.k; k += depth) {
        const int64_t steps = std::min(depth, dot.k - k);
        pack_panels(right.at(column, k), columns, tile.columns, steps, b_block);
        for (int64_t i = 0; i < rows; i += kPanelRows) {
          const int64_t count = std::min(kPanelRows, rows - i);
          pack_panels(left.at(row + i, k), count, tile.rows, steps, a_block);
          multiply_panels(count, columns, steps, a_block, b_block, sums + i * width, width, k > 0);
        }
      }
      for (int64_t i = 0; i < rows; ++i) {
        if (bias != nullptr) {
          add_floats(bias + column, columns, sums + i * width);
        }
        write_floats(c_type, sums + i * width, columns, c, (row + i) * dot.c_m + column);
      }
    }
  }
}

}  // namespace kinema::kernels
