#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "kinema/core/parallel.h"

namespace kinema {

struct ReadAheadOptions {
  int64_t first = 0;
  int64_t end = -1;  // one past the last; negative: endless
  int threads = 2;
  int64_t depth = 4;  // items made but not yet taken, including those in progress
};

/// Makes numbered items ahead on its own threads and hands them out in order.
///
/// The threads take numbers in order and begin one only while fewer than `depth` are ahead of the
/// caller. Works with fewer threads where no more can be made; without any, `next` makes the item
/// itself. The destructor waits for items in progress. `next` must be called from one thread.
template <typename Thing>
class ReadAhead {
 public:
  /// `make` makes the item of a number, on any of the threads; `begin` is called first on each
  /// thread, with the thread's number.
  ReadAhead(const ReadAheadOptions& options, std::function<Thing(int64_t)> make,
            std::function<void(int)> begin = {})
      : options_(options),
        make_(std::move(make)),
        begin_(std::move(begin)),
        begun_(options.first),
        taken_(options.first) {
    threads_.reserve(static_cast<size_t>(options_.threads));
    try {
      for (int i = 0; i < options_.threads; ++i) {
        threads_.push_back(start_thread([this, i] { run(i); },
                                        [this](std::exception_ptr error) { end_by(error); }));
      }
    } catch (const Error&) {
    } catch (...) {
      stop();
      throw;
    }
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead() { stop(); }

  /// The next item; waits for it. Empty after the last. Throws what `make` threw for this number,
  /// and the same again if called again.
  std::optional<Thing> next() {
    std::unique_lock lock(mutex_);
    if (!exists(taken_)) {
      return std::nullopt;
    }
    if (threads_.empty() && begun_ == taken_) {
      make_next(lock);
    }
    arrived_.wait(lock, [&] { return ready_.contains(taken_) || failure_; });
    const auto made = ready_.find(taken_);
    if (made == ready_.end()) {
      std::rethrow_exception(failure_);
    }
    if (made->second.error) {
      std::rethrow_exception(made->second.error);
    }
    std::optional<Thing> thing = std::move(made->second.thing);
    ready_.erase(made);
    ++taken_;
    lock.unlock();
    room_.notify_all();
    return thing;
  }
  /// The number of the item that `next` returns next.
  int64_t position() const {
    const std::scoped_lock lock(mutex_);
    return taken_;
  }

 private:
  struct Made {
    std::optional<Thing> thing;
    std::exception_ptr error;
  };

  bool exists(int64_t number) const { return options_.end < 0 || number < options_.end; }

  void run(int thread) {
    if (begin_) {
      begin_(thread);
    }
    std::unique_lock lock(mutex_);
    for (;;) {
      room_.wait(lock, [&] { return stopping_ || begun_ < taken_ + options_.depth; });
      if (stopping_ || !exists(begun_)) {
        return;
      }
      make_next(lock);
      arrived_.notify_all();
    }
  }

  /// Makes the next item that no thread has started; unlocks `lock` while it works.
  void make_next(std::unique_lock<std::mutex>& lock) {
    const int64_t number = begun_++;
    lock.unlock();
    Made made;
    try {
      made.thing = make_(number);
    } catch (...) {
      made.error = std::current_exception();
    }
    lock.lock();
    ready_.emplace(number, std::move(made));
  }

  /// Makes `next` throw an error from outside `make`; errors of `make` belong to their item.
  void end_by(std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    failure_ = std::move(error);
    arrived_.notify_all();
  }

  void stop() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    threads_.clear();  // joins
  }

  ReadAheadOptions options_;
  std::function<Thing(int64_t)> make_;
  std::function<void(int)> begin_;
  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable arrived_;
  std::map<int64_t, Made> ready_;
  std::exception_ptr failure_;
  int64_t begun_;
  int64_t taken_;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace kinema
