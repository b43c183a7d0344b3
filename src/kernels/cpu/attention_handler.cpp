#include <exception>

#include "core/error.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/lowering.h"
#include "kernels/cpu/parallel.h"

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

XLA_FFI_DEFINE_HANDLER(kAttentionHandler, run,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .RemainingArgs()
                           .Ret<ffi::AnyBuffer>()
                           .Attr<ffi::Span<const int64_t>>("plan")
                           .Attr<double>("scale"));

}  // namespace

void* attention_handler() { return reinterpret_cast<void*>(kAttentionHandler); }

}  // namespace kinema::kernels
