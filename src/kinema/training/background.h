#pragma once

#include <functional>
#include <future>
#include <optional>
#include <string>

namespace kinema::training {

/// One job at a time on a separate thread of lower priority than the steps that run meanwhile; if
/// no thread can be created, `start` runs the job itself. A job reports through its result, because
/// objects may not outlive it. Not thread-safe.
class Background {
 public:
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  /// Waits for the job.
  ~Background();

  /// Starts `work` after the previous job has finished. Throws what that job threw.
  void start(std::function<std::string()> work);
  /// The result of a job that has finished since the last call. Throws what the job threw.
  std::optional<std::string> poll();
  /// Waits for the job; nothing if there was none. Throws what it threw.
  std::optional<std::string> finish();

 private:
  std::future<std::string> running_;
};

}  // namespace kinema::training
