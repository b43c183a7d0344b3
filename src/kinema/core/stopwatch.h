#pragma once

#include <chrono>

namespace kinema {

/// Seconds since it was made or restarted, by a clock that nobody sets.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void restart() { start_ = Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// Adds the seconds it lives to a total.
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
