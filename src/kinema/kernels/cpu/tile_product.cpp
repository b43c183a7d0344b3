#include "kinema/kernels/cpu/tile_product.h"

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/isa.h"
#include "kinema/kernels/cpu/matrix_product.h"

namespace kinema::kernels {
namespace {

constexpr int64_t kLine = 64;   // bytes
constexpr int64_t kBlock = 64;  // columns that oneDNN makes together
/// What stays in the second cache: the buffer, and results that are written as they come.
constexpr int64_t kSmall = int64_t{1} << 20;  // bytes

/// Rows of `bytes` each, whole lines, past the caches: they are too many to be read from there.
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

}  // namespace

bool uses_tiles(DType in) { return isa() == Isa::Amx && in == DType::BF16; }

void multiply_in_tiles(const StridedDot& dot, DType in, DType out, const char* a, const char* b,
                       char* c, const float* bias) {
  const int64_t width = byte_size(out);
  if (dot.c_m == dot.n && dot.m * dot.n * width < kSmall) {
    multiply_alone(dot, in, out, a, b, c, bias);
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
    multiply_alone(part, in, out, a, b + column * dot.b_n * byte_size(in), made,
                   bias == nullptr ? nullptr : bias + column);
    copy(made, part.m, part.n * width, c + column * width, dot.c_m * width);
  }
}

}  // namespace kinema::kernels
