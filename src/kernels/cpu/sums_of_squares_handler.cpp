#include <algorithm>
#include <vector>

#include "core/error.h"
#include "kernels/cpu/bf16_loops.h"
#include "kernels/cpu/lowering.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector_loop.h"

namespace kinema::kernels {
namespace {

namespace ffi = ::xla::ffi;

constexpr int64_t kPiece = 1 << 14;  // elements of one partial sum

// Sixteen sums side by side, joined in a fixed order: the result depends on nothing but the data.
struct SumOfSquares {
  [[gnu::always_inline]] static float run(const float* x, int64_t n) {
    float lanes[16] = {};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
      for (int64_t lane = 0; lane < 16; ++lane) {
        lanes[lane] += x[i + lane] * x[i + lane];
      }
    }
    float sum = 0.0F;
    for (; i < n; ++i) {
      sum += x[i] * x[i];
    }
    for (const float lane : lanes) {
      sum += lane;
    }
    return sum;
  }
};

struct Piece {
  const void* data;  // of the row
  bool narrow;
  int64_t start, count;
  int64_t row;  // of the result
};

std::vector<Piece> pieces_of(const ffi::RemainingArgs& tensors, ffi::Span<const int64_t> rows) {
  std::vector<Piece> pieces;
  int64_t row = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const auto tensor = tensors.get<ffi::AnyBuffer>(t);
    check(tensor.has_value(), "[sums_of_squares kernel] tensor {} cannot be read", t);
    const bool narrow = tensor->element_type() == ffi::DataType::BF16;
    const auto parts = rows.begin()[t];
    const int64_t size = static_cast<int64_t>(tensor->element_count()) / parts;
    for (int64_t part = 0; part < parts; ++part, ++row) {
      const auto* data =
          static_cast<const char*>(tensor->untyped_data()) + part * size * (narrow ? 2 : 4);
      for (int64_t at = 0; at < size; at += kPiece) {
        pieces.push_back({data, narrow, at, std::min(kPiece, size - at), row});
      }
    }
  }
  return pieces;
}

float sum_of_piece(const Piece& piece) {
  if (!piece.narrow) {
    return vector_loop<SumOfSquares>(static_cast<const float*>(piece.data) + piece.start,
                                     piece.count);
  }
  float widened[kPiece];
  const auto* bits = static_cast<const uint16_t*>(piece.data) + piece.start;
  from_bf16(bits, piece.count, widened);
  return vector_loop<SumOfSquares>(widened, piece.count);
}

ffi::Error sums_of_squares(ffi::ThreadPool pool, ffi::RemainingArgs tensors,
                           ffi::Result<ffi::AnyBuffer> sums, ffi::Span<const int64_t> rows) {
  try {
    check(rows.size() == tensors.size(), "[sums_of_squares kernel] {} row counts for {} tensors",
          rows.size(), tensors.size());
    const std::vector<Piece> pieces = pieces_of(tensors, rows);
    std::vector<float> partial(pieces.size());
    constexpr int64_t kTogether = 16;  // pieces per task
    const auto count = static_cast<int64_t>(pieces.size());
    parallel_for(pool, (count + kTogether - 1) / kTogether, [&](int64_t task) {
      for (int64_t i = task * kTogether; i < std::min(count, (task + 1) * kTogether); ++i) {
        partial[static_cast<size_t>(i)] = sum_of_piece(pieces[static_cast<size_t>(i)]);
      }
    });
    std::vector<double> rows_sum(sums->element_count());
    for (size_t i = 0; i < pieces.size(); ++i) {
      rows_sum[static_cast<size_t>(pieces[i].row)] += partial[i];
    }
    auto* result = static_cast<float*>(sums->untyped_data());
    std::transform(rows_sum.begin(), rows_sum.end(), result,
                   [](double sum) { return static_cast<float>(sum); });
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

XLA_FFI_DEFINE_HANDLER(kSumsOfSquaresHandler, sums_of_squares,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .RemainingArgs()
                           .Ret<ffi::AnyBuffer>()
                           .Attr<ffi::Span<const int64_t>>("rows"));

}  // namespace

void* sums_of_squares_handler() { return reinterpret_cast<void*>(kSumsOfSquaresHandler); }

}  // namespace kinema::kernels
