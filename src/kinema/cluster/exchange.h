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

/// A program's collectives, and the owners of its partitions.
struct SharedProgram {
  int64_t number = 0;  ///< equal in all processes; part of its calls
  std::vector<pjrt::CollectiveCall> calls;
  std::vector<int64_t> process_of;          ///< by partition
  std::map<int64_t, int64_t> partition_of;  ///< by device of this process
  /// The first tag of each call's messages; a call uses one per operand and partition.
  std::vector<int> tags;
};

/// A device at a collective: its operands, and the memory for its results.
struct Arrival {
  int64_t partition = 0;
  DType dtype = DType::F32;
  std::vector<std::span<const std::byte>> operands;
  std::vector<std::span<std::byte>> results;
  /// Called once, with an error or an empty string; after that the memory belongs to the program
  /// again. Does not throw.
  std::function<void(const std::string& error)> done;
};

/// Of all exchanges of this process.
std::atomic<int64_t>& nanoseconds_waited();

/// Executes the collectives of programs over several processes. A call starts when all devices of
/// this process have arrived; a separate thread sends, receives and computes, so that no device
/// blocks inside its call: XLA starts calls in different orders on the devices, and a few that
/// block would use all its threads.
class Exchange {
 public:
  /// `engine`: null for a single process. `failed`: polled during waits for messages; another
  /// process's error, or an empty string.
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
  /// Calls at which not all devices of this process have arrived; requires the lock.
  void take_gathering(std::vector<std::unique_ptr<Meeting>>& into);

  std::shared_ptr<world::Engine> engine_;
  std::function<std::string()> failed_;
  int channel_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable some_;
  std::map<std::pair<int64_t, size_t>, std::unique_ptr<Meeting>> gathering_;
  std::vector<std::unique_ptr<Meeting>> complete_;
  bool ends_ = false;
  std::string error_;  // of the thread, which has ended
  std::jthread worker_;
};

}  // namespace kinema::cluster
