#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/world/engine.h"

namespace kinema::world {

/// How long to wait for other processes, and the name of the exchange.
struct Wait {
  std::string what;  ///< `the start record`: part of the error
  double seconds = 300;
};

/// Collective exchanges of texts between all processes, called in the same order in each. One
/// thread at a time.
///
/// Every call throws an Error with the processes that did not arrive before the timeout.
class Communicator {
 public:
  /// A single process.
  Communicator() = default;
  /// Created by every process at the same point. `failed` is polled during waits: it returns
  /// another process's error, or an empty string.
  explicit Communicator(std::shared_ptr<Engine> engine, std::function<std::string()> failed = {});

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }

  /// The texts of all processes, by rank.
  std::vector<std::string> gather(std::string_view own, const Wait& wait);
  /// The text of process 0.
  std::string broadcast(std::string_view of_first, const Wait& wait);
  /// Returns when all processes have arrived.
  void barrier(const Wait& wait);
  /// Sends to one process, which must receive it; returns when `text` is no longer needed.
  void send(std::string_view text, int64_t to, const Wait& wait);
  /// The next text that process `from` sends to this one.
  std::string receive(int64_t from, const Wait& wait);

 private:
  class Deadline;
  std::vector<std::string> collect(std::string_view own, const Wait& wait);
  std::string hand_out(std::string_view text, const Wait& wait);
  void send_to(const std::vector<int64_t>& others, std::string_view text, const Wait& wait);

  std::shared_ptr<Engine> engine_;  // null: a single process
  int64_t rank_ = 0;
  int64_t size_ = 1;
  std::function<std::string()> failed_;
  int channel_ = 0;
};

/// `process 3`, `processes 1, 2 and 5`, `processes 1 to 7`
std::string ranks_text(const std::vector<int64_t>& ranks);

}  // namespace kinema::world
