#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kinema/replay/chunk.h"
#include "kinema/replay/selector.h"

namespace kinema::replay {

struct ReplayOptions {
  /// Steps of a window.
  int64_t length = 65;
  /// Windows that are kept at most; the oldest goes first. 0: all.
  int64_t capacity = 0;
  int64_t chunk_size = 1024;
  /// Samples for training are first served from a queue of new windows that do not overlap, so that
  /// each step is trained on once, soon.
  bool online = false;
  uint64_t seed = 0;
};

/// Steps of several workers, and all windows of successive ones. A window may go over the end of an
/// episode; it is there as soon as its last step is. May be used by several threads.
class Replay {
 public:
  /// Without a selector, every window is as probable.
  explicit Replay(const ReplayOptions& options, std::unique_ptr<Selector> selector = {});

  /// Adds a worker's next step. Values whose names begin with `log/` are not kept.
  void add(const Arrays& step, int64_t worker = 0);

  /// So many windows, by name [rows, length, ...], and `stepid` U8 [rows, length, 20]. `is_first`
  /// of the first step of a window is 1, since nothing is known of the steps before it; `is_last`
  /// is 1 before every `is_first`. `training` false leaves the queue alone. Throws an Error when
  /// there is no window.
  Arrays sample(int64_t rows, bool training = true);

  /// Replaces values [..., ...] of steps: `stepid` U8 [..., 20] as a sample had it. Steps that are
  /// no longer kept are passed over.
  void update(const HostArray& stepid, const Arrays& values);
  /// Gives steps their priorities, F32 [...].
  void prioritize(const HostArray& stepid, const HostArray& priorities);

  int64_t windows() const;
  int64_t chunks() const;
  /// The first steps of all windows, the oldest window's first; and of those in the queue.
  std::vector<StepId> starts() const;
  std::vector<StepId> queued() const;

  /// What is kept, for `restore`: the numbers of all chunks, a chunk's steps by name [length, ...],
  /// and S64 arrays about everything else.
  std::vector<uint64_t> chunk_numbers() const;
  Arrays chunk(uint64_t number) const;
  Arrays index() const;
  /// Continues from there, in a replay with the same options to which nothing was added: samples
  /// are those that the other one would have given, if its selector has a state. `chunk` gives the
  /// steps of a chunk that has any. Throws an Error for arrays that do not fit together.
  void restore(const Arrays& index, const std::function<Arrays(uint64_t number)>& chunk);

  /// The steps from `start` on, by name [length, ...], as they are stored, with `stepid`.
  Arrays window(const StepId& start) const;

 private:
  struct Worker {
    uint64_t chunk = 0;
    int64_t steps = 0;
    std::deque<StepId> newest;  // at most a window's
  };
  Chunk& begin_chunk();
  void release(uint64_t chunk);
  void insert_window(const StepId& start);
  void erase_oldest();
  /// The ids of the steps of a window.
  std::vector<StepId> steps_from(StepId start) const;
  StepId next_start(bool training);
  void copy_row(Arrays& out, int64_t row, int64_t rows, const StepId& start) const;

  ReplayOptions options_;
  mutable std::mutex mutex_;
  std::unique_ptr<Selector> selector_;
  std::map<uint64_t, Chunk> chunks_;
  /// How many windows begin in a chunk or may still do so, and whether a worker writes it or the
  /// one before it is kept.
  std::map<uint64_t, int64_t> uses_;
  std::map<int64_t, Worker> workers_;
  std::map<int64_t, StepId> starts_;  // by window, the oldest first
  std::deque<StepId> queue_;
  int64_t next_window_ = 0;
  uint64_t next_chunk_ = 1;
};

}  // namespace kinema::replay
