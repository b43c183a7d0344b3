#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kinema/core/dtype.h"
#include "kinema/pjrt/collective_calls.h"
#include "kinema/world/engine.h"

namespace kinema::cluster {

/// A program's collectives, and whose its partitions are.
struct SharedProgram {
  int64_t number = 0;  ///< equal in all processes; what its calls name
  std::vector<pjrt::CollectiveCall> calls;
  std::vector<int64_t> process_of;          ///< by partition
  std::map<int64_t, int64_t> partition_of;  ///< by device of this process
  /// The first tag of each call's messages; a call takes one for each operand and partition.
  std::vector<int> tags;
};

/// A device at a collective: what it gives, and where results go.
struct Arrival {
  int64_t partition = 0;
  DType dtype = DType::F32;
  std::vector<std::span<const std::byte>> operands;
  std::vector<std::span<std::byte>> results;
  /// Called once, with an error or nothing; from then on the memory is the program's again. Does
  /// not throw.
  std::function<void(const std::string& error)> done;
};

/// Of all exchanges of this process.
std::atomic<int64_t>& nanoseconds_waited();

/// Does the collectives of programs over several processes. A call begins when all devices of this
/// process have come to it; a thread of its own sends, receives and computes, so that no device
/// waits inside its call: XLA starts calls in another order on each, and a few that wait would take
/// all its threads.
class Exchange {
 public:
  /// `engine`: null for one process. `failed`: the error of another process, or an empty string;
  /// asked while messages are awaited.
  Exchange(std::shared_ptr<world::Engine> engine, std::function<std::string()> failed);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange();

  void arrive(const std::shared_ptr<const SharedProgram>& program, size_t site, Arrival arrival);

 private:
  class Meeting;
  void work();
  void serve(std::vector<std::unique_ptr<Meeting>>& active);
  bool advance(std::vector<std::unique_ptr<Meeting>>& active);
  /// Those that not all devices of this process have come to; under the lock.
  void take_gathering(std::vector<std::unique_ptr<Meeting>>& into);

  std::shared_ptr<world::Engine> engine_;
  std::function<std::string()> failed_;
  int channel_;
  std::mutex mutex_;  // of what follows
  std::condition_variable some_;
  std::map<std::pair<int64_t, size_t>, std::unique_ptr<Meeting>> gathering_;
  std::vector<std::unique_ptr<Meeting>> complete_;
  bool ends_ = false;
  std::string error_;  // of the thread, which has ended
  std::jthread worker_;
};

}  // namespace kinema::cluster
