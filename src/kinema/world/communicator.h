#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/world/engine.h"

namespace kinema::world {

/// How long to wait for the others, and for what.
struct Wait {
  std::string what;  ///< `the start record`: shows in the error
  double seconds = 300;
};

/// Exchanges of texts between all processes, in the same order in each. One thread at a time.
///
/// Every call throws an Error that names the processes which did not come in time.
class Communicator {
 public:
  /// The only process.
  Communicator() = default;
  /// Every process makes one at the same point. `failed` is asked while it waits: an error of
  /// another process, or an empty string.
  explicit Communicator(std::shared_ptr<Engine> engine, std::function<std::string()> failed = {});

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }

  /// What each process gives, by rank.
  std::vector<std::string> gather(std::string_view own, const Wait& wait);
  /// What process 0 gives.
  std::string broadcast(std::string_view of_first, const Wait& wait);
  /// Returns when all have come.
  void barrier(const Wait& wait);
  /// To one process, which receives it; returns when the text is no longer needed.
  void send(std::string_view text, int64_t to, const Wait& wait);
  /// What that process sends to this one, in the order in which it does.
  std::string receive(int64_t from, const Wait& wait);

 private:
  class Deadline;
  std::vector<std::string> collect(std::string_view own, const Wait& wait);
  std::string hand_out(std::string_view text, const Wait& wait);
  void send_to(const std::vector<int64_t>& others, std::string_view text, const Wait& wait);

  std::shared_ptr<Engine> engine_;  // null: the only process
  int64_t rank_ = 0;
  int64_t size_ = 1;
  std::function<std::string()> failed_;
  int channel_ = 0;
};

/// `process 3`, `processes 1, 2 and 5`, `processes 1 to 7`
std::string ranks_text(const std::vector<int64_t>& ranks);

}  // namespace kinema::world
