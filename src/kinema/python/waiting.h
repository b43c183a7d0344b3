#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

/// Work in a thread of its own, for which the calling thread of Python waits.
namespace kinema::python {

namespace nb = nanobind;

/// Runs `work` in a thread that `finish_all` knows. The thread may outlive the call.
void start_thread(std::function<void()> work);
/// Waits for all threads, without the GIL: before the interpreter ends.
void finish_all();

/// How long an interrupted call waits for its work, which was asked to stop.
inline constexpr std::chrono::milliseconds kPatience{900};

/// Calls `work(stop)` in another thread, without the GIL, and returns its result or throws its
/// exception. Signals are handled meanwhile: if that raises (KeyboardInterrupt by Ctrl-C), the work
/// is asked to stop, and the exception is raised when it has stopped, or after kPatience, because a
/// compiler cannot be interrupted. `give_up` is then called, with the GIL: the work continues until
/// it can stop, and must not use Python objects any more. Nothing that `work` refers to may belong
/// to the calling thread.
template <typename Result>
Result wait_for(std::function<Result(std::stop_token)> work, const std::function<void()>& give_up) {
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;
    std::optional<Result> result;
    std::exception_ptr failure;
    std::stop_source stop;
  };
  const auto state = std::make_shared<State>();
  std::optional<nb::python_error> interrupt;
  bool is_done = false;
  {
    const nb::gil_scoped_release unlocked;
    start_thread([state, work = std::move(work)]() mutable {
      std::optional<Result> result;
      std::exception_ptr failure;
      try {
        result.emplace(work(state->stop.get_token()));
      } catch (...) {
        failure = std::current_exception();
      }
      work = nullptr;  // its copies of Python's callbacks end before the call does
      const std::lock_guard lock(state->mutex);
      state->result = std::move(result);
      state->failure = std::move(failure);
      state->is_done = true;
      state->changed.notify_all();
    });
    auto patience = std::chrono::steady_clock::time_point::max();
    while (!is_done && std::chrono::steady_clock::now() < patience) {
      {
        std::unique_lock lock(state->mutex);
        is_done = state->changed.wait_for(lock, std::chrono::milliseconds(20),
                                          [&] { return state->is_done; });
      }
      if (!is_done && !interrupt) {
        const nb::gil_scoped_acquire locked;
        if (PyErr_CheckSignals() != 0) {
          interrupt.emplace();
          state->stop.request_stop();
          patience = std::chrono::steady_clock::now() + kPatience;
        }
      }
    }
  }
  if (interrupt) {
    if (!is_done) {
      give_up();
    }
    throw nb::python_error(std::move(*interrupt));
  }
  if (state->failure) {
    std::rethrow_exception(std::exchange(state->failure, nullptr));
  }
  return std::move(*state->result);
}

}  // namespace kinema::python
