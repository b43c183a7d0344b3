#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kinema {

/// Calls work(0) ... work(count - 1), up to `threads` at a time; throws the first exception when
/// what was begun by then is done.
inline void for_each_in_parallel(size_t count, int threads,
                                 const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        error = error ? error : std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (size_t i = 1; i < count && i < static_cast<size_t>(threads); ++i) {
      others.emplace_back(run);
    }
    run();
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

}  // namespace kinema
