#include <algorithm>
#include <exception>

#include "kinema/core/error.h"
#include "kinema/kernels/cpu/float_loops.h"
#include "kinema/kernels/cpu/handlers.h"
#include "kinema/kernels/cpu/parallel.h"
#include "kinema/kernels/cpu/rounding.h"

namespace kinema::kernels {
namespace {

namespace ffi = ::xla::ffi;

/// Sums over the rows of x [rows, columns], without a copy. Rows are added in groups, so that
/// errors grow with the group size and the number of groups, not with the number of rows.
ffi::Error column_sums(ffi::ThreadPool pool, ffi::AnyBuffer x,
                       ffi::Result<ffi::BufferR1<ffi::F32>> y) {
  try {
    const bool narrow = x.element_type() == ffi::DataType::BF16;
    const auto columns = static_cast<int64_t>(y->element_count());
    check(columns > 0 && (narrow || x.element_type() == ffi::DataType::F32),
          "[column_sums kernel] element type {} with {} columns is not covered",
          static_cast<int>(x.element_type()), columns);
    const int64_t rows = static_cast<int64_t>(x.element_count()) / columns;
    constexpr int64_t kColumns = 256;
    constexpr int64_t kRows = 64;
    const DType dtype = narrow ? DType::BF16 : DType::F32;
    const auto* from = static_cast<const char*>(x.untyped_data());
    float* const to = y->typed_data();
    parallel_for(pool, ceil_div(columns, kColumns), [&](int64_t block) {
      const int64_t first = block * kColumns;
      const int64_t count = std::min(kColumns, columns - first);
      float row_of[kColumns];
      float group[kColumns];
      std::fill_n(to + first, count, 0.0F);
      for (int64_t begin = 0; begin < rows; begin += kRows) {
        std::fill_n(group, count, 0.0F);
        for (int64_t row = begin; row < std::min(rows, begin + kRows); ++row) {
          read_floats(dtype, from, row * columns + first, count, row_of);
          add_floats(row_of, count, group);
        }
        add_floats(group, count, to + first);
      }
    });
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

XLA_FFI_DEFINE_HANDLER(
    kColumnSumsHandler, column_sums,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::AnyBuffer>().Ret<ffi::BufferR1<ffi::F32>>());

}  // namespace

void* column_sums_handler() { return reinterpret_cast<void*>(kColumnSumsHandler); }

}  // namespace kinema::kernels
