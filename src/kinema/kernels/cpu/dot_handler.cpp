#include <algorithm>
#include <exception>

#include "kinema/core/error.h"
#include "kinema/kernels/cpu/handlers.h"
#include "kinema/kernels/cpu/matrix_product.h"
#include "kinema/kernels/cpu/parallel.h"
#include "kinema/kernels/cpu/traced.h"

namespace kinema::kernels {
namespace {

namespace ffi = ::xla::ffi;

DType dtype_of(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::F32:
      return DType::F32;
    case ffi::DataType::BF16:
      return DType::BF16;
    case ffi::DataType::S8:
      return DType::S8;
    case ffi::DataType::S32:
      return DType::S32;
    default:
      fail("[dot kernel] operands of element type {} are not covered", static_cast<int>(type));
  }
}

/// One slice of a stack, at the index in argument `at` (clamped, as in the compiler).
const void* slice_of(const ffi::AnyBuffer& stack, const ffi::RemainingArgs& positions, size_t at) {
  const auto position = positions.get<ffi::BufferR0<ffi::S32>>(at);
  check(position.has_value() && stack.dimensions().size() > 0 && stack.dimensions()[0] > 0,
        "[dot kernel] argument {} is not the position in a stack", at);
  const int64_t length = stack.dimensions()[0];
  const int64_t index = std::clamp<int64_t>(*position->typed_data(), 0, length - 1);
  return static_cast<const char*>(stack.untyped_data()) +
         index * static_cast<int64_t>(stack.size_bytes()) / length;
}

const float* bias_of(const ffi::RemainingArgs& rest, size_t at, int64_t n) {
  const auto bias = rest.get<ffi::BufferR1<ffi::F32>>(at);
  check(bias.has_value() && static_cast<int64_t>(bias->element_count()) == n,
        "[dot kernel] argument {} is not a bias of {} numbers", at, n);
  return bias->typed_data();
}

ffi::Error dot(ffi::ThreadPool pool, ffi::AnyBuffer a, ffi::AnyBuffer b, ffi::RemainingArgs rest,
               ffi::Result<ffi::AnyBuffer> c, ffi::Span<const int64_t> plan,
               ffi::Span<const int64_t> stacked, int64_t has_bias) {
  try {
    const StridedDot dot = from_words(plan.begin(), static_cast<int64_t>(plan.size()));
    check(stacked.size() == 2, "[dot kernel] {} operands are described", stacked.size());
    size_t read = 0;
    const void* left = stacked[0] != 0 ? slice_of(a, rest, read++) : a.untyped_data();
    const void* right = stacked[1] != 0 ? slice_of(b, rest, read++) : b.untyped_data();
    const float* bias = has_bias != 0 ? bias_of(rest, read, dot.n) : nullptr;
    const int64_t threads = std::max<int64_t>(1, pool.num_threads());
    matrix_product(dot, dtype_of(a.element_type()), dtype_of(c->element_type()), left, right, bias,
                   c->untyped_data(), threads,
                   [&](int64_t count, const std::function<void(int64_t)>& task) {
                     parallel_for(pool, count, task);
                   });
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

auto binding() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .RemainingArgs()
      .Ret<ffi::AnyBuffer>()
      .Attr<ffi::Span<const int64_t>>("plan")
      .Attr<ffi::Span<const int64_t>>("stacked")
      .Attr<int64_t>("bias");
}

XLA_FFI_DEFINE_HANDLER(kDotHandler, dot, binding());
XLA_FFI_DEFINE_HANDLER(kTracedDotHandler, traced(dot), binding().Attr<int64_t>("scope"));

}  // namespace

void* dot_handler() { return reinterpret_cast<void*>(kDotHandler); }
void* traced_dot_handler() { return reinterpret_cast<void*>(kTracedDotHandler); }

}  // namespace kinema::kernels
