#pragma once

#include <functional>
#include <future>
#include <optional>
#include <string>

namespace kinema::training {

/// One piece of work at a time on a thread of its own, which gives way to the steps that run
/// meanwhile; where no thread can be made, `start` does the work. What it has to say comes back as
/// its result: work writes to nothing that may be gone when it ends. Not for several threads.
class Background {
 public:
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  /// Waits for the work.
  ~Background();

  /// Begins `work` when the work before it is done. Throws what that threw.
  void start(std::function<std::string()> work);
  /// What work returned that has ended since it was last asked for. Throws what it has thrown.
  std::optional<std::string> poll();
  /// Waits for the work; nothing when there was none. Throws what it threw.
  std::optional<std::string> finish();

 private:
  std::future<std::string> running_;
};

}  // namespace kinema::training
