#include <exception>

#include "kinema/core/error.h"
#include "kinema/core/trace.h"
#include "kinema/kernels/cpu/convolution.h"
#include "kinema/kernels/cpu/handlers.h"
#include "kinema/kernels/cpu/parallel.h"

namespace kinema::kernels {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error run(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::AnyBuffer w,
               ffi::Result<ffi::AnyBuffer> y, ffi::Span<const int64_t> plan) {
  try {
    const bool bf16 = x.element_type() == ffi::DataType::BF16;
    check(bf16 || x.element_type() == ffi::DataType::F32,
          "[convolution kernel] operands of element type {} are not covered",
          static_cast<int>(x.element_type()));
    convolution(convolution_from_words(plan.begin(), static_cast<int64_t>(plan.size())),
                bf16 ? DType::BF16 : DType::F32, x.untyped_data(), w.untyped_data(),
                y->untyped_data(), [&](int64_t count, const std::function<void(int64_t)>& task) {
                  parallel_for(pool, count, task);
                });
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

ffi::Error traced(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::AnyBuffer w,
                  ffi::Result<ffi::AnyBuffer> y, ffi::Span<const int64_t> plan, int64_t scope) {
  const trace::Scope span(trace::Label{scope});
  return run(pool, x, w, y, plan);
}

auto binding() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Ret<ffi::AnyBuffer>()
      .Attr<ffi::Span<const int64_t>>("plan");
}

XLA_FFI_DEFINE_HANDLER(kConvolutionHandler, run, binding());
XLA_FFI_DEFINE_HANDLER(kTracedHandler, traced, binding().Attr<int64_t>("scope"));

}  // namespace

void* convolution_handler() { return reinterpret_cast<void*>(kConvolutionHandler); }
void* traced_convolution_handler() { return reinterpret_cast<void*>(kTracedHandler); }

}  // namespace kinema::kernels
