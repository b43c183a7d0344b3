#include <exception>
#include <functional>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/kernels/cpu/convolution.h"
#include "kinema/kernels/cpu/group_norm.h"
#include "kinema/kernels/cpu/handlers.h"
#include "kinema/kernels/cpu/parallel.h"
#include "kinema/kernels/cpu/traced.h"

namespace kinema::kernels {
namespace {

namespace ffi = ::xla::ffi;

using Words = ffi::Span<const int64_t>;
using PerChannel = ffi::BufferR1<ffi::F32>;

DType dtype_of(const ffi::AnyBuffer& x) {
  const bool bf16 = x.element_type() == ffi::DataType::BF16;
  check(bf16 || x.element_type() == ffi::DataType::F32,
        "[convolution kernel] operands of element type {} are not covered",
        static_cast<int>(x.element_type()));
  return bf16 ? DType::BF16 : DType::F32;
}

ffi::Error succeeds(const std::function<void()>& work) {
  try {
    work();
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

ParallelFor on(ffi::ThreadPool& pool) {
  return [&pool](int64_t count, const std::function<void(int64_t)>& task) {
    parallel_for(pool, count, task);
  };
}

ConvolutionPlan plan_of(Words words) {
  return convolution_from_words(words.begin(), static_cast<int64_t>(words.size()));
}

ffi::Error plain(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::AnyBuffer w,
                 ffi::Result<ffi::AnyBuffer> y, Words plan) {
  return succeeds([&] {
    convolution(plan_of(plan), dtype_of(x), x.untyped_data(), w.untyped_data(), y->untyped_data(),
                on(pool));
  });
}

const float* numbers(const PerChannel& of, int64_t count) {
  check(static_cast<int64_t>(of.element_count()) == count,
        "[convolution kernel] {} numbers are given for {} channels", of.element_count(), count);
  return of.typed_data();
}

ffi::Error activated(ffi::ThreadPool pool, ffi::AnyBuffer x, PerChannel scale, PerChannel shift,
                     ffi::AnyBuffer w, PerChannel bias, ffi::Result<ffi::AnyBuffer> y, Words words,
                     int64_t groups, double epsilon) {
  return succeeds([&] {
    const ConvolutionPlan plan = plan_of(words);
    const GroupNormPlan norm{.batch = plan.batch,
                             .channels = plan.groups * plan.in,
                             .pixels = plan.x[0] * plan.x[1] * plan.x[2],
                             .groups = groups,
                             .epsilon = epsilon};
    const ParallelFor parallel = on(pool);
    const std::vector<ActivatedChannel> channels =
        activated_channels(norm, dtype_of(x), x.untyped_data(), numbers(scale, norm.channels),
                           numbers(shift, norm.channels), parallel);
    convolution(plan, dtype_of(x), x.untyped_data(), w.untyped_data(), y->untyped_data(), parallel,
                {.channels = channels.data(), .bias = numbers(bias, plan.groups * plan.out)});
  });
}

auto binding() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Ret<ffi::AnyBuffer>()
      .Attr<Words>("plan");
}

auto activated_binding() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .Arg<PerChannel>()
      .Arg<PerChannel>()
      .Arg<ffi::AnyBuffer>()
      .Arg<PerChannel>()
      .Ret<ffi::AnyBuffer>()
      .Attr<Words>("plan")
      .Attr<int64_t>("groups")
      .Attr<double>("epsilon");
}

XLA_FFI_DEFINE_HANDLER(kPlain, plain, binding());
XLA_FFI_DEFINE_HANDLER(kTraced, traced(plain), binding().Attr<int64_t>("scope"));
XLA_FFI_DEFINE_HANDLER(kActivated, activated, activated_binding());
XLA_FFI_DEFINE_HANDLER(kTracedActivated, traced(activated),
                       activated_binding().Attr<int64_t>("scope"));

}  // namespace

void* convolution_handler() { return reinterpret_cast<void*>(kPlain); }
void* traced_convolution_handler() { return reinterpret_cast<void*>(kTraced); }
void* activated_convolution_handler() { return reinterpret_cast<void*>(kActivated); }
void* traced_activated_convolution_handler() { return reinterpret_cast<void*>(kTracedActivated); }

}  // namespace kinema::kernels
