#include "kinema/kernels/cpu/matrix_product.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/kernels/cpu/isa.h"
#include "kinema/kernels/cpu/onednn.h"
#include "kinema/kernels/cpu/panel_product.h"
#include "kinema/kernels/cpu/rounding.h"
#include "kinema/kernels/cpu/tile_product.h"

namespace kinema::kernels {
namespace {

using dnnl::memory;

/// Rows and columns of one operand; an axis of size 1 gets any stride that keeps the layout plain.
memory::desc descriptor(DType dtype, int64_t rows, int64_t columns, int64_t row_stride,
                        int64_t column_stride) {
  if (column_stride != 1 && row_stride != 1) {
    (columns == 1 ? column_stride : row_stride) = 1;
  }
  if (column_stride == 1) {
    row_stride = rows == 1 ? columns : row_stride;
  } else {
    column_stride = columns == 1 ? rows : column_stride;
  }
  return {{rows, columns}, dnnl_type(dtype), memory::dims{row_stride, column_stride}};
}

struct Kernel {
  dnnl::matmul primitive;
  memory::desc a, b, c, bias;
};

Kernel make_kernel(const StridedDot& dot, DType in, DType out, bool has_bias) {
  Kernel kernel{.a = descriptor(in, dot.m, dot.k, dot.a_m, dot.a_k),
                .b = descriptor(in, dot.k, dot.n, dot.b_k, dot.b_n),
                .c = descriptor(out, dot.m, dot.n, dot.c_m, dot.c_n)};
  if (has_bias) {
    kernel.bias = memory::desc({1, dot.n}, dnnl_type(DType::F32), memory::dims{dot.n, 1});
  }
  kernel.primitive = dnnl::matmul(matmul_of(kernel.a, kernel.b, kernel.c, kernel.bias));
  return kernel;
}

/// c^T = b^T a^T: for results with contiguous columns instead of rows.
StridedDot transposed(const StridedDot& dot) {
  StridedDot t{dot.n,   dot.m,   dot.k,   dot.b_n, dot.b_k,
               dot.a_k, dot.a_m, dot.c_n, dot.c_m, dot.batch};
  for (BatchLoop& loop : t.batch) {
    std::swap(loop.a, loop.b);
  }
  return t;
}

/// First element and size of one piece of work.
struct Piece {
  StridedDot dot;
  int64_t a, b, c;
  int64_t column = 0;
};

std::vector<Piece> matrices(const StridedDot& dot) {
  std::vector<Piece> pieces{{dot, 0, 0, 0}};
  pieces[0].dot.batch.clear();
  for (const BatchLoop& loop : dot.batch) {
    std::vector<Piece> next;
    for (const Piece& piece : pieces) {
      for (int64_t i = 0; i < loop.size; ++i) {
        next.push_back(
            {piece.dot, piece.a + i * loop.a, piece.b + i * loop.b, piece.c + i * loop.c});
      }
    }
    pieces = std::move(next);
  }
  return pieces;
}

/// Slices of `step` rows or columns.
std::vector<Piece> slices(const std::vector<Piece>& pieces, bool rows, int64_t step) {
  std::vector<Piece> out;
  for (const Piece& piece : pieces) {
    const StridedDot& dot = piece.dot;
    const int64_t side = rows ? dot.m : dot.n;
    for (int64_t at = 0; at < side; at += step) {
      Piece slice = piece;
      (rows ? slice.dot.m : slice.dot.n) = std::min(step, side - at);
      slice.a += rows ? at * dot.a_m : 0;
      slice.b += rows ? 0 : at * dot.b_n;
      slice.c += at * (rows ? dot.c_m : dot.c_n);
      slice.column += rows ? 0 : at;
      out.push_back(slice);
    }
  }
  return out;
}

constexpr int64_t kRowsOfTile = 16;  // in an AMX tile

/// Whole matrices if there are enough, otherwise slices of the longer side.
std::vector<Piece> split(const StridedDot& dot, bool in_tiles, bool rounded, int64_t threads) {
  std::vector<Piece> pieces = matrices(dot);
  if (in_tiles) {
    // The same number of pieces for each thread.
    const int64_t count = round_up(ceil_div(dot.m, kTileRows), threads);
    return slices(pieces, true, round_up(ceil_div(dot.m, count), kRowsOfTile));
  }
  if (static_cast<int64_t>(pieces.size()) < 2 * threads && threads > 1) {
    const bool rows = dot.m >= dot.n;
    const int64_t side = rows ? dot.m : dot.n;
    constexpr int64_t kGrain = 64;  // a multiple of every register tile
    pieces = slices(pieces, rows,
                    std::max(kGrain, (side + threads * kGrain - 1) / (threads * kGrain) * kGrain));
  }
  if (rounded) {
    // oneDNN keeps all F32 sums of a rounded result in a buffer of its own.
    constexpr int64_t kMostRows = 2048;
    constexpr int64_t kMostColumns = 1024;
    pieces = slices(slices(pieces, true, kMostRows), false, kMostColumns);
  }
  return pieces;
}

}  // namespace

void multiply_single_threaded(const StridedDot& dot, DType in, DType out, const char* a,
                              const char* b, char* c, const float* bias) {
  if (product_dtype(in) != in) {
    panel_product(dot, in, in, out, a, b, c, bias);
    return;
  }
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                         int64_t, DType, DType, bool>;
  // Kernels are cached per thread and shape.
  thread_local std::map<Key, Kernel> kernels;
  dnnl::stream& stream = dnnl_stream();
  if (kernels.size() > 512) {
    kernels.clear();
  }
  const Key key{dot.m,   dot.n,   dot.k,   dot.a_m, dot.a_k, dot.b_k,
                dot.b_n, dot.c_m, dot.c_n, in,      out,     bias != nullptr};
  auto found = kernels.find(key);
  if (found == kernels.end()) {
    found = kernels.emplace(key, make_kernel(dot, in, out, bias != nullptr)).first;
  }
  const Kernel& kernel = found->second;
  std::unordered_map<int, memory> operands{
      {DNNL_ARG_SRC, memory(kernel.a, dnnl_engine(), const_cast<char*>(a))},
      {DNNL_ARG_WEIGHTS, memory(kernel.b, dnnl_engine(), const_cast<char*>(b))},
      {DNNL_ARG_DST, memory(kernel.c, dnnl_engine(), c)}};
  if (bias != nullptr) {
    operands.emplace(DNNL_ARG_BIAS, memory(kernel.bias, dnnl_engine(), const_cast<float*>(bias)));
  }
  kernel.primitive.execute(stream, operands);
  stream.wait();
}

void matrix_product(const StridedDot& given, DType in, DType out, const void* a, const void* b,
                    const float* bias, void* c, int64_t threads, const ParallelFor& parallel_for) {
  const bool swap = given.c_n != 1 && given.n != 1;
  check(bias == nullptr || !swap, "[dot kernel] a bias needs a product by rows");
  const StridedDot dot = swap ? transposed(given) : given;
  const auto* left = static_cast<const char*>(swap ? b : a);
  const auto* right = static_cast<const char*>(swap ? a : b);
  auto* result = static_cast<char*>(c);
  const int64_t in_bytes = byte_size(in);
  const int64_t out_bytes = byte_size(out);
  // With few rows, the columns are split instead.
  const bool in_tiles = uses_tiles(in) && dot.m >= kRowsOfTile * threads;
  if (in_tiles && has_shared_tiles(dot, in)) {
    shared_tile_product(dot, out, left, right, result, bias, threads, parallel_for);
    return;
  }
  const std::vector<Piece> pieces = split(dot, in_tiles, out == DType::BF16, threads);
  try {
    parallel_for(static_cast<int64_t>(pieces.size()), [&](int64_t i) {
      const Piece& piece = pieces[static_cast<size_t>(i)];
      const auto multiply = in_tiles ? multiply_in_tiles : multiply_single_threaded;
      multiply(piece.dot, in, out, left + piece.a * in_bytes, right + piece.b * in_bytes,
               result + piece.c * out_bytes, bias == nullptr ? nullptr : bias + piece.column);
    });
  } catch (const dnnl::error& error) {
    fail("[dot kernel] oneDNN refuses a product of {} x {} x {}: {}", dot.m, dot.n, dot.k,
         error.message);
  }
}

bool has_fast_product(DType dtype) {
  return dtype == DType::S8 ? has_int8_products()
                            : (dtype == DType::F32 || dtype == DType::BF16) && isa() >= Isa::Avx2;
}

DType product_dtype(DType dtype) {
  return dtype == DType::BF16 && isa() < Isa::Avx512Bf16 ? DType::F32 : dtype;
}

}  // namespace kinema::kernels
