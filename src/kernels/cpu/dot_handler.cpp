#include <algorithm>
#include <exception>

#include "core/error.h"
#include "kernels/cpu/lowering.h"
#include "kernels/cpu/matrix_product.h"
#include "kernels/cpu/parallel.h"

namespace kinema::kernels {
namespace {

namespace ffi = ::xla::ffi;

DType dtype_of(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::F32:
      return DType::F32;
    case ffi::DataType::BF16:
      return DType::BF16;
    default:
      fail("[dot kernel] operands of element type {} are not covered", static_cast<int>(type));
  }
}

ffi::Error dot(ffi::ThreadPool pool, ffi::AnyBuffer a, ffi::AnyBuffer b,
               ffi::Result<ffi::AnyBuffer> c, ffi::Span<const int64_t> plan) {
  try {
    const StridedDot dot = from_words(plan.begin(), static_cast<int64_t>(plan.size()));
    const int64_t threads = std::max<int64_t>(1, pool.num_threads());
    matrix_product(dot, dtype_of(a.element_type()), dtype_of(c->element_type()), a.untyped_data(),
                   b.untyped_data(), c->untyped_data(), threads,
                   [&](int64_t count, const std::function<void(int64_t)>& task) {
                     parallel_for(pool, count, task);
                   });
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

XLA_FFI_DEFINE_HANDLER(kDotHandler, dot,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .Ret<ffi::AnyBuffer>()
                           .Attr<ffi::Span<const int64_t>>("plan"));

}  // namespace

void* dot_handler() { return reinterpret_cast<void*>(kDotHandler); }

}  // namespace kinema::kernels
