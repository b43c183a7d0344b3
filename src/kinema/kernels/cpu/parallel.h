#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "xla/ffi/api/ffi.h"

namespace kinema::kernels {

/// Work that idle threads of the plugin's pool may join. The caller works too and waits only for
/// pieces that a thread has begun, so it cannot deadlock when all threads of the pool wait.
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

/// Runs `task(0) .. task(count - 1)` on the plugin's threads and returns when all are done;
/// rethrows a task's exception.
inline void parallel_for(::xla::ffi::ThreadPool& pool, int64_t count,
                         const std::function<void(int64_t)>& task) {
  const auto shared = std::make_shared<SharedWork>();
  shared->task = task;
  shared->count = count;
  for (int64_t i = 1; i < std::min<int64_t>(pool.num_threads(), count); ++i) {
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

}  // namespace kinema::kernels
