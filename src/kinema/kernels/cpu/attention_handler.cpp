#include <exception>

#include "kinema/core/error.h"
#include "kinema/core/trace.h"
#include "kinema/kernels/cpu/attention.h"
#include "kinema/kernels/cpu/handlers.h"
#include "kinema/kernels/cpu/parallel.h"

namespace kinema::kernels {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error run(ffi::ThreadPool pool, ffi::AnyBuffer q, ffi::AnyBuffer k, ffi::AnyBuffer v,
               ffi::RemainingArgs rest, ffi::Result<ffi::AnyBuffer> y,
               ffi::Span<const int64_t> plan, double scale) {
  try {
    const bool bf16 = q.element_type() == ffi::DataType::BF16;
    check(bf16 || q.element_type() == ffi::DataType::F32,
          "[attention kernel] operands of element type {} are not covered",
          static_cast<int>(q.element_type()));
    const float* bias = nullptr;
    if (rest.size() > 0) {
      const auto given = rest.get<ffi::AnyBuffer>(0);
      check(given.has_value() && given->element_type() == ffi::DataType::F32,
            "[attention kernel] the bias is not f32");
      bias = static_cast<const float*>(given->untyped_data());
    }
    attention(attention_from_words(plan.begin(), static_cast<int64_t>(plan.size())),
              bf16 ? DType::BF16 : DType::F32, scale, q.untyped_data(), k.untyped_data(),
              v.untyped_data(), bias, y->untyped_data(),
              [&](int64_t count, const std::function<void(int64_t)>& task) {
                parallel_for(pool, count, task);
              });
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

ffi::Error traced(ffi::ThreadPool pool, ffi::AnyBuffer q, ffi::AnyBuffer k, ffi::AnyBuffer v,
                  ffi::RemainingArgs rest, ffi::Result<ffi::AnyBuffer> y,
                  ffi::Span<const int64_t> plan, double scale, int64_t scope) {
  const trace::Scope span(trace::Label{scope});
  return run(pool, q, k, v, rest, y, plan, scale);
}

auto binding() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .RemainingArgs()
      .Ret<ffi::AnyBuffer>()
      .Attr<ffi::Span<const int64_t>>("plan")
      .Attr<double>("scale");
}

XLA_FFI_DEFINE_HANDLER(kAttentionHandler, run, binding());
XLA_FFI_DEFINE_HANDLER(kTracedHandler, traced, binding().Attr<int64_t>("scope"));

}  // namespace

void* attention_handler() { return reinterpret_cast<void*>(kAttentionHandler); }
void* traced_attention_handler() { return reinterpret_cast<void*>(kTracedHandler); }

}  // namespace kinema::kernels
