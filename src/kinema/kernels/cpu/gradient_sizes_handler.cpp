#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/kernels/cpu/float_loops.h"
#include "kinema/kernels/cpu/handlers.h"
#include "kinema/kernels/cpu/parallel.h"
#include "kinema/kernels/cpu/vector_loop.h"

namespace kinema::kernels {
namespace {

namespace ffi = ::xla::ffi;

constexpr int64_t kChunk = 1 << 14;  // elements per partial result

struct Sizes {
  float squares = 0;
  float largest = 0;
};

// The larger one, or NaN if either is NaN.
[[gnu::always_inline]] inline float larger(float x, float largest) {
  return static_cast<int>(x > largest) | static_cast<int>(x != x) ? x : largest;
}

// Sixteen of each in parallel, combined in a fixed order: results depend only on the data.
struct SizesLoop {
  [[gnu::always_inline]] static Sizes run(const float* x, int64_t n, float limit) {
    constexpr int64_t kLanes = 16;
    float squares[kLanes] = {};
    float largest[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const float size = std::abs(x[i + lane]);
        const float limited = size > limit ? limit : size;
        squares[lane] += limited * limited;
        largest[lane] = larger(size, largest[lane]);
      }
    }
    Sizes sizes;
    for (; i < n; ++i) {
      const float size = std::abs(x[i]);
      const float limited = size > limit ? limit : size;
      sizes.squares += limited * limited;
      sizes.largest = larger(size, sizes.largest);
    }
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      sizes.squares += squares[lane];
      sizes.largest = larger(largest[lane], sizes.largest);
    }
    return sizes;
  }
};

struct Piece {
  const void* data;  // of the row
  bool narrow;
  int64_t start, count;
  int64_t row;  // in the results
};

std::vector<Piece> pieces_of(const ffi::RemainingArgs& tensors, ffi::Span<const int64_t> rows) {
  std::vector<Piece> pieces;
  int64_t row = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const auto tensor = tensors.get<ffi::AnyBuffer>(t);
    check(tensor.has_value(), "[gradient_sizes kernel] tensor {} cannot be read", t);
    const bool narrow = tensor->element_type() == ffi::DataType::BF16;
    const auto parts = rows.begin()[t];
    const int64_t size = static_cast<int64_t>(tensor->element_count()) / parts;
    for (int64_t part = 0; part < parts; ++part, ++row) {
      const auto* data =
          static_cast<const char*>(tensor->untyped_data()) + part * size * (narrow ? 2 : 4);
      for (int64_t at = 0; at < size; at += kChunk) {
        pieces.push_back({data, narrow, at, std::min(kChunk, size - at), row});
      }
    }
  }
  return pieces;
}

Sizes sizes_of(const Piece& piece, float limit) {
  if (!piece.narrow) {
    return vector_loop<SizesLoop>(static_cast<const float*>(piece.data) + piece.start, piece.count,
                                  limit);
  }
  float widened[kChunk];
  const auto* bits = static_cast<const uint16_t*>(piece.data) + piece.start;
  from_bf16(bits, piece.count, widened);
  return vector_loop<SizesLoop>(static_cast<const float*>(widened), piece.count, limit);
}

ffi::Error gradient_sizes(ffi::ThreadPool pool, ffi::RemainingArgs tensors,
                          ffi::Result<ffi::AnyBuffer> squares, ffi::Result<ffi::AnyBuffer> largest,
                          ffi::Span<const int64_t> rows, double max_value) {
  try {
    check(rows.size() == tensors.size(), "[gradient_sizes kernel] {} row counts for {} tensors",
          rows.size(), tensors.size());
    const float limit =
        max_value > 0 ? static_cast<float>(max_value) : std::numeric_limits<float>::infinity();
    const std::vector<Piece> pieces = pieces_of(tensors, rows);
    std::vector<Sizes> partial(pieces.size());
    constexpr int64_t kTogether = 16;  // pieces per task
    const auto count = static_cast<int64_t>(pieces.size());
    parallel_for(pool, (count + kTogether - 1) / kTogether, [&](int64_t task) {
      for (int64_t i = task * kTogether; i < std::min(count, (task + 1) * kTogether); ++i) {
        partial[static_cast<size_t>(i)] = sizes_of(pieces[static_cast<size_t>(i)], limit);
      }
    });
    std::vector<double> sums(squares->element_count());
    auto* const magnitudes = static_cast<float*>(largest->untyped_data());
    std::fill_n(magnitudes, largest->element_count(), 0.0F);
    for (size_t i = 0; i < pieces.size(); ++i) {
      const auto row = static_cast<size_t>(pieces[i].row);
      sums[row] += partial[i].squares;
      magnitudes[row] = larger(partial[i].largest, magnitudes[row]);
    }
    std::transform(sums.begin(), sums.end(), static_cast<float*>(squares->untyped_data()),
                   [](double sum) { return static_cast<float>(sum); });
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

XLA_FFI_DEFINE_HANDLER(kGradientSizesHandler, gradient_sizes,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .RemainingArgs()
                           .Ret<ffi::AnyBuffer>()
                           .Ret<ffi::AnyBuffer>()
                           .Attr<ffi::Span<const int64_t>>("rows")
                           .Attr<double>("max_value"));

}  // namespace

void* gradient_sizes_handler() { return reinterpret_cast<void*>(kGradientSizesHandler); }

}  // namespace kinema::kernels
