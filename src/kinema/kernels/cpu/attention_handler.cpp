#include <exception>

#include "kinema/core/error.h"
#include "kinema/kernels/cpu/attention.h"
#include "kinema/kernels/cpu/handlers.h"
#include "kinema/kernels/cpu/parallel.h"
#include "kinema/kernels/cpu/traced.h"

namespace kinema::kernels {
namespace {

namespace ffi = ::xla::ffi;

DType dtype_of(const ffi::AnyBuffer& x) {
  const bool bf16 = x.element_type() == ffi::DataType::BF16;
  check(bf16 || x.element_type() == ffi::DataType::F32,
        "[attention kernel] operands of element type {} are not covered",
        static_cast<int>(x.element_type()));
  return bf16 ? DType::BF16 : DType::F32;
}

float* f32(ffi::AnyBuffer& x, const char* what) {
  check(x.element_type() == ffi::DataType::F32, "[attention kernel] {} is not f32", what);
  return static_cast<float*>(x.untyped_data());
}

AttentionPlan plan_of(const ffi::Span<const int64_t>& words) {
  return attention_from_words(words.begin(), static_cast<int64_t>(words.size()));
}

/// Turns an exception of a kernel into an error of the calling program.
template <typename Work>
ffi::Error guarded(ffi::ThreadPool& pool, const Work& work) {
  try {
    work([&](int64_t count, const std::function<void(int64_t)>& task) {
      parallel_for(pool, count, task);
    });
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

// ---- Forward -------------------------------------------------------------------------------

ffi::Error forward(ffi::ThreadPool pool, ffi::AnyBuffer q, ffi::AnyBuffer k, ffi::AnyBuffer v,
                   ffi::RemainingArgs bias, ffi::Result<ffi::AnyBuffer> y, ffi::RemainingRets lse,
                   ffi::Span<const int64_t> plan, double scale) {
  return guarded(pool, [&](const ParallelFor& on_pool) {
    const float* added = nullptr;
    if (bias.size() > 0) {
      auto given = bias.get<ffi::AnyBuffer>(0);
      check(given.has_value(), "[attention kernel] the bias is not a buffer");
      added = f32(*given, "the bias");
    }
    float* sums = nullptr;
    if (lse.size() > 0) {
      auto given = lse.get<ffi::AnyBuffer>(0);
      check(given.has_value(), "[attention kernel] lse is not a buffer");
      sums = f32(**given, "lse");
    }
    attention(plan_of(plan), dtype_of(q), scale, q.untyped_data(), k.untyped_data(),
              v.untyped_data(), added, y->untyped_data(), sums, on_pool);
  });
}

auto forward_binding() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .RemainingArgs()
      .Ret<ffi::AnyBuffer>()
      .RemainingRets()
      .Attr<ffi::Span<const int64_t>>("plan")
      .Attr<double>("scale");
}

XLA_FFI_DEFINE_HANDLER(kForwardHandler, forward, forward_binding());
XLA_FFI_DEFINE_HANDLER(kTracedForwardHandler, traced(forward),
                       forward_binding().Attr<int64_t>("scope"));

// ---- Backward ------------------------------------------------------------------------------

ffi::Error backward(ffi::ThreadPool pool, ffi::AnyBuffer q, ffi::AnyBuffer k, ffi::AnyBuffer v,
                    ffi::AnyBuffer lse, ffi::AnyBuffer delta, ffi::AnyBuffer dy,
                    ffi::Result<ffi::AnyBuffer> dq, ffi::Result<ffi::AnyBuffer> dk,
                    ffi::Result<ffi::AnyBuffer> dv, ffi::Span<const int64_t> plan, double scale) {
  return guarded(pool, [&](const ParallelFor& on_pool) {
    attention_backward(plan_of(plan), dtype_of(q), dtype_of(*dq), scale,
                       {.q = q.untyped_data(),
                        .k = k.untyped_data(),
                        .v = v.untyped_data(),
                        .lse = f32(lse, "lse"),
                        .delta = f32(delta, "delta"),
                        .dy = dy.untyped_data(),
                        .dq = dq->untyped_data(),
                        .dk = dk->untyped_data(),
                        .dv = dv->untyped_data()},
                       on_pool);
  });
}

auto backward_binding() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Ret<ffi::AnyBuffer>()
      .Ret<ffi::AnyBuffer>()
      .Ret<ffi::AnyBuffer>()
      .Attr<ffi::Span<const int64_t>>("plan")
      .Attr<double>("scale");
}

XLA_FFI_DEFINE_HANDLER(kBackwardHandler, backward, backward_binding());
XLA_FFI_DEFINE_HANDLER(kTracedBackwardHandler, traced(backward),
                       backward_binding().Attr<int64_t>("scope"));

}  // namespace

void* attention_handler() { return reinterpret_cast<void*>(kForwardHandler); }
void* traced_attention_handler() { return reinterpret_cast<void*>(kTracedForwardHandler); }
void* attention_backward_handler() { return reinterpret_cast<void*>(kBackwardHandler); }
void* traced_attention_backward_handler() {
  return reinterpret_cast<void*>(kTracedBackwardHandler);
}

}  // namespace kinema::kernels
