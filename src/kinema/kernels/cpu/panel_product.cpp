#include "kinema/kernels/cpu/panel_product.h"

#include <algorithm>
#include <cstring>

#include "kinema/kernels/cpu/bf16_loops.h"
#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/panels.h"
#include "kinema/kernels/cpu/vector_loop.h"

namespace kinema::kernels {
namespace {

// Sizes of blocks: a's 192 KiB are about half of the smallest L2 (256 KiB to 2 MiB), b's stay in
// the last-level cache.
constexpr int64_t kRows = 192;     // of a: a multiple of every tile
constexpr int64_t kColumns = 768;  // of b: a multiple of every tile
// Rows that share a packed block of b. Their sums lie close together until the last of k is added:
// rows of a wide result are pages apart, and a tile would touch as many.
constexpr int64_t kTallestSums = 1024;

struct Add {
  [[gnu::always_inline]] static void run(float* sums, int64_t n, const float* x) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      sums[i] += x[i];
    }
  }
};

/// One row of sums as the result has it.
void store(const float* sums, int64_t n, DType dtype, char* to) {
  if (dtype == DType::BF16) {
    to_bf16(sums, n, 1.0F, reinterpret_cast<uint16_t*>(to));
  } else {
    std::memcpy(to, sums, static_cast<size_t>(n) * sizeof(float));
  }
}

int64_t round_up(int64_t size, int64_t step) { return (size + step - 1) / step * step; }

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
      a_buffer.floats(round_up(std::min(dot.m, kRows), tile.rows) * depth + kPanelSpare);
  float* b_block = b_buffer.floats(round_up(width, tile.columns) * depth + kPanelSpare);
  float* sums = sums_buffer.floats(height * width);
  for (int64_t row = 0; row < dot.m; row += height) {
    const int64_t rows = std::min(height, dot.m - row);
    for (int64_t column = 0; column < dot.n; column += width) {
      const int64_t columns = std::min(width, dot.n - column);
      for (int64_t k = 0; k < dot.k; k += depth) {
        const int64_t steps = std::min(depth, dot.k - k);
        pack_panels(right.at(column, k), columns, tile.columns, steps, b_block);
        for (int64_t i = 0; i < rows; i += kRows) {
          const int64_t count = std::min(kRows, rows - i);
          pack_panels(left.at(row + i, k), count, tile.rows, steps, a_block);
          multiply_panels(count, columns, steps, a_block, b_block, sums + i * width, width, k > 0);
        }
      }
      for (int64_t i = 0; i < rows; ++i) {
        if (bias != nullptr) {
          vector_loop<Add>(sums + i * width, columns, bias + column);
        }
        store(sums + i * width, columns, c_type,
              c + ((row + i) * dot.c_m + column) * byte_size(c_type));
      }
    }
  }
}

}  // namespace kinema::kernels
