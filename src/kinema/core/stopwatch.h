#pragma once

#include <chrono>

namespace kinema {

/// Seconds since construction or restart, on a monotonic clock.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void restart() { start_ = Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// Adds the seconds of its lifetime to a total.
class AddSeconds {
 public:
  explicit AddSeconds(double& total) : total_(total) {}
  AddSeconds(const AddSeconds&) = delete;
  AddSeconds& operator=(const AddSeconds&) = delete;
  ~AddSeconds() { total_ += watch_.seconds(); }

 private:
  double& total_;
  Stopwatch watch_;
};

}  // namespace kinema
