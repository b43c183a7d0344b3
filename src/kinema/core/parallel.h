#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "kinema/core/address_space.h"
#include "kinema/core/error.h"

namespace kinema {

/// A thread that runs `work`, with its stop token if it takes one. An exception that left a
/// thread's function would end the process, so `failed` receives it, on that thread, and passes it
/// to whoever waits for the work. `failed` must not throw. Throws an Error where no thread can be
/// made.
template <typename Work, typename Failed>
std::jthread start_thread(Work work, Failed failed) {
  try {
    return std::jthread(
        [work = std::move(work), failed = std::move(failed)](const std::stop_token& stop) mutable {
          try {
            if constexpr (std::is_invocable_v<Work&, const std::stop_token&>) {
              work(stop);
            } else {
              work();
            }
          } catch (...) {
            failed(std::current_exception());
          }
        });
  } catch (const std::system_error& error) {
    fail("[threads] this process cannot make another thread: {}\n  {}", error.code().message(),
         thread_remedy());
  }
}

/// start_thread for optional work, such as a notice that something takes long: if no thread can be
/// made, the work is skipped, and an error only ends it.
template <typename Work>
std::jthread start_optional_thread(Work work) {
  try {
    return start_thread(std::move(work), [](const std::exception_ptr&) {});
  } catch (const Error&) {
    return {};
  }
}

/// The number of hardware threads of this machine; at least 1.
inline int processor_threads() {
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

/// Calls work(0) ... work(count - 1), up to `threads` at a time, this thread included. After the
/// first exception no further call begins; it is rethrown once the running ones have ended. Runs
/// with fewer threads where no more can be made.
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
    const size_t wanted = std::min(count, static_cast<size_t>(std::max(threads, 1)));
    std::vector<std::jthread> others;
    others.reserve(wanted);
    try {
      while (others.size() + 1 < wanted) {
        others.emplace_back(run);
      }
    } catch (const std::system_error&) {
    }
    run();
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

/// Calls work(first, last) for consecutive ranges that together cover 0 .. count - 1, in parallel;
/// one range where there are fewer than 2 * `least` items.
inline void for_ranges_in_parallel(int64_t count, int64_t least,
                                   const std::function<void(int64_t, int64_t)>& work) {
  const int64_t ranges =
      std::clamp<int64_t>(count / std::max<int64_t>(least, 1), 1, processor_threads());
  for_each_in_parallel(static_cast<size_t>(ranges), static_cast<int>(ranges), [&](size_t i) {
    const auto range = static_cast<int64_t>(i);
    work(count * range / ranges, count * (range + 1) / ranges);
  });
}

/// The future result of `work`, which runs on its own thread after `begin` has run there. Where no
/// thread can be made, `work` runs in the calling thread, without `begin`, before this returns.
template <typename Begin, typename Work>
auto in_background(Begin begin, const Work& work) {
  try {
    return std::async(std::launch::async, [begin = std::move(begin), work] {
      begin();
      return work();
    });
  } catch (const std::system_error&) {
    auto result = std::async(std::launch::deferred, work);
    result.wait();
    return result;
  }
}

}  // namespace kinema
