#include "kinema/kernels/cpu/tile_product.h"

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kinema/kernels/cpu/amx_product.h"
#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/float_loops.h"
#include "kinema/kernels/cpu/isa.h"
#include "kinema/kernels/cpu/matrix_product.h"
#include "kinema/kernels/cpu/rounding.h"

namespace kinema::kernels {
namespace {

constexpr int64_t kLine = 64;   // bytes
constexpr int64_t kBlock = 64;  // columns that oneDNN computes together
/// Fits in L2: the buffer, and results that are written directly.
constexpr int64_t kSmall = int64_t{1} << 20;  // bytes

/// Copies rows of `bytes` each, whole cache lines, with non-temporal stores: too many to be read
/// from the caches.
[[gnu::target("avx512f")]] void stream(const char* from, int64_t rows, int64_t bytes, char* to,
                                       int64_t to_row) {
  for (int64_t i = 0; i < rows; ++i, from += bytes, to += to_row) {
    for (int64_t at = 0; at < bytes; at += kLine) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), _mm512_load_si512(from + at));
    }
  }
  _mm_sfence();
}

void copy(const char* from, int64_t rows, int64_t bytes, char* to, int64_t to_row) {
  const bool whole_lines =
      reinterpret_cast<uintptr_t>(to) % kLine == 0 && bytes % kLine == 0 && to_row % kLine == 0;
  if (whole_lines) {
    stream(from, rows, bytes, to, to_row);
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(to + i * to_row, from + i * bytes, static_cast<size_t>(bytes));
  }
}

/// How a product is split over threads. The sums do not depend on it.
struct Cut {
  int64_t rows, columns;  // of c, whose sums stay in L2
  int64_t together;       // columns of b that are packed at a time

  Cut(const StridedDot& dot, int64_t threads) {
    constexpr int64_t kRows = 256;
    constexpr int64_t kFewRows = 64;
    constexpr int64_t kColumns = 512;
    constexpr int64_t kPacked = int64_t{1} << 24;  // bytes
    const int64_t blocks = ceil_div(dot.n, kColumns);
    columns = round_up(ceil_div(dot.n, blocks), 2 * kTileColumns);
    const int64_t parts = std::max(ceil_div(dot.m, kRows), ceil_div(2 * threads, blocks));
    rows = std::max(kFewRows, round_up(ceil_div(dot.m, parts), 2 * kTileHeight));
    together = std::max(kPacked / (2 * dot.k) / columns * columns, columns);
  }
};

/// Writes rows of sums, plus a bias, to the result.
void write_rows(float* sums, int64_t rows, int64_t columns, const float* bias, DType out, char* to,
                int64_t to_row) {
  thread_local Buffer buffer;
  const int64_t bytes = columns * byte_size(out);
  if (bias != nullptr) {
    for (int64_t i = 0; i < rows; ++i) {
      add_floats(bias, columns, sums + i * columns);
    }
  }
  const char* from = reinterpret_cast<const char*>(sums);
  if (out == DType::BF16) {
    char* rounded = buffer.at_least(static_cast<size_t>(rows * bytes));
    to_bf16(sums, rows * columns, 1.0F, reinterpret_cast<uint16_t*>(rounded));
    from = rounded;
  }
  copy(from, rows, bytes, to, to_row);
}

}  // namespace

bool has_shared_tiles(const StridedDot& dot, DType in) {
  const bool by_rows = dot.a_k == 1 || (dot.a_m == 1 && dot.m % kTileHeight == 0);
  return uses_tiles(in) && dot.batch.empty() && by_rows && dot.c_n == 1 &&
         (dot.b_k == 1 || dot.b_n == 1) && fits_tiles(dot.k, dot.n);
}

/// A block of sums for `columns` columns of b: over the first part of k, then the next ones.
static void add_parts(const StridedDot& dot, int64_t rows, int64_t columns, const uint16_t* a,
                      const uint16_t* tiles, float* sums) {
  // Rows this far apart map to few cache lines.
  constexpr int64_t kFar = 4096;
  const bool copies = dot.a_k != 1 || dot.a_m >= kFar;
  thread_local Buffer buffer;
  for (int64_t k = 0; k < dot.k; k += kPartDepth) {
    const int64_t depth = std::min(kPartDepth, dot.k - k);
    const uint16_t* from = a + k * dot.a_k;
    if (copies) {
      auto* to = reinterpret_cast<uint16_t*>(
          buffer.at_least(static_cast<size_t>(rows * depth) * sizeof(uint16_t)));
      copy_rows(from, rows, depth, dot.a_m, dot.a_k, to);
      from = to;
    }
    multiply_tiles(rows, depth, columns, from, copies ? depth : dot.a_m, tiles + k * columns, sums,
                   columns, k > 0);
  }
}

void shared_tile_product(const StridedDot& dot, DType out, const char* a, const char* b, char* c,
                         const float* bias, int64_t threads, const ParallelFor& parallel_for) {
  const Cut cut(dot, threads);
  const auto* left = reinterpret_cast<const uint16_t*>(a);
  const auto* right = reinterpret_cast<const uint16_t*>(b);
  Buffer packed;
  auto* tiles = reinterpret_cast<uint16_t*>(
      packed.at_least(static_cast<size_t>(2 * dot.k * std::min(dot.n, cut.together))));
  for (int64_t first = 0; first < dot.n; first += cut.together) {
    const int64_t width = std::min(cut.together, dot.n - first);
    const int64_t blocks = ceil_div(width, cut.columns);
    const int64_t parts = ceil_div(dot.k, kPartDepth);
    const auto columns_of = [&](int64_t block) {
      return std::min(cut.columns, width - block * cut.columns);
    };
    parallel_for(blocks * parts, [&](int64_t i) {
      const int64_t column = i / parts * cut.columns;
      const int64_t columns = columns_of(i / parts);
      const int64_t k = i % parts * kPartDepth;
      pack_tiles(right + (first + column) * dot.b_n + k * dot.b_k, std::min(kPartDepth, dot.k - k),
                 columns, dot.b_k, dot.b_n, tiles + column * dot.k + k * columns);
    });
    parallel_for(ceil_div(dot.m, cut.rows) * blocks, [&](int64_t i) {
      thread_local Buffer buffer;
      float* sums = buffer.floats(cut.rows * cut.columns);
      const int64_t row = i / blocks * cut.rows;
      const int64_t rows = std::min(cut.rows, dot.m - row);
      const int64_t column = i % blocks * cut.columns;
      const int64_t columns = columns_of(i % blocks);
      add_parts(dot, rows, columns, left + row * dot.a_m, tiles + column * dot.k, sums);
      const int64_t at = row * dot.c_m + first + column;
      write_rows(sums, rows, columns, bias == nullptr ? nullptr : bias + first + column, out,
                 c + at * byte_size(out), dot.c_m * byte_size(out));
    });
  }
}

bool uses_tiles(DType in) { return isa() == Isa::Amx && in == DType::BF16; }

void multiply_in_tiles(const StridedDot& dot, DType in, DType out, const char* a, const char* b,
                       char* c, const float* bias) {
  const int64_t width = byte_size(out);
  if (dot.c_m == dot.n && dot.m * dot.n * width < kSmall) {
    multiply_single_threaded(dot, in, out, a, b, c, bias);
    return;
  }
  thread_local Buffer buffer;
  const int64_t columns =
      std::clamp(kSmall / (dot.m * width) / kBlock * kBlock, kBlock, 16 * kBlock);
  for (int64_t column = 0; column < dot.n; column += columns) {
    StridedDot part = dot;
    part.n = std::min(columns, dot.n - column);
    part.c_m = part.n;
    char* made = buffer.at_least(static_cast<size_t>(part.m * part.n * width));
    multiply_single_threaded(part, in, out, a, b + column * dot.b_n * byte_size(in), made,
                             bias == nullptr ? nullptr : bias + column);
    copy(made, part.m, part.n * width, c + column * width, dot.c_m * width);
  }
}

}  // namespace kinema::kernels
