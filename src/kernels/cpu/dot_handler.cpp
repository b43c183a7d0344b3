#include <atomic>
#include <exception>
#include <memory>
#include <mutex>

#include "core/error.h"
#include "kernels/cpu/lowering.h"
#include "kernels/cpu/matrix_product.h"
#include "xla/ffi/api/ffi.h"

namespace kinema::kernels {
namespace {

namespace ffi = ::xla::ffi;

/// Work that idle threads of the plugin's pool may join. The caller works too and waits only for
/// pieces that somebody has begun, so a pool whose threads all wait cannot lock up.
struct SharedWork {
  std::function<void(int64_t)> task;
  int64_t count = 0;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> done{0};
  std::mutex mutex;
  std::exception_ptr failure;

  void work() {
    for (int64_t i = next++; i < count; i = next++) {
      try {
        task(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
      if (++done == count) {
        done.notify_all();
      }
    }
  }
};

void parallel_for(ffi::ThreadPool& pool, int64_t threads, int64_t count,
                  const std::function<void(int64_t)>& task) {
  const auto shared = std::make_shared<SharedWork>();
  shared->task = task;
  shared->count = count;
  for (int64_t i = 1; i < std::min(threads, count); ++i) {
    pool.Schedule([shared] { shared->work(); });
  }
  shared->work();
  for (int64_t done = shared->done; done < count; done = shared->done) {
    shared->done.wait(done);
  }
  if (shared->failure) {
    std::rethrow_exception(shared->failure);
  }
}

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
                     parallel_for(pool, threads, count, task);
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
