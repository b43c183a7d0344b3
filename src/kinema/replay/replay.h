#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
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
  /// Chunks are files in this folder, mapped into memory; empty: they are in memory. Chunks that a
  /// full disk has no space for are in memory too.
  std::filesystem::path folder = {};
  /// Bytes of chunks in memory, and of files that are mapped, at most; windows that would need more
  /// because of a full disk are taken out, the oldest first.
  int64_t memory = int64_t{4} << 30;
  /// Values that `update` replaces: the others are checked when files are read.
  std::set<std::string> updated = {};
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

  /// What is kept, for `restore`: the numbers of chunks that are not files, a chunk's steps by name
  /// [length, ...], and S64 arrays about everything else.
  std::vector<uint64_t> chunk_numbers() const;
  Arrays chunk(uint64_t number) const;
  Arrays index() const;
  /// Continues from there, in a replay with the same options to which nothing was added: samples
  /// are those that the other one would have given, if its selector has a state. `chunk` gives the
  /// steps of a chunk that is not a file, if it has any. Throws an Error for arrays that do not fit
  /// together. Files that are damaged or missing are left out, with all windows that need them; the
  /// result has a line for each.
  std::vector<std::string> restore(const Arrays& index,
                                   const std::function<Arrays(uint64_t number)>& chunk);
  /// Waits until files are on the disk, before an index of them is kept.
  void sync();
  /// Removes the files of chunks that are no longer kept. Until then an earlier index can be
  /// restored.
  void drop_released();
  /// Removes what another run left in the folder.
  void clear_folder();
  /// Lines about a disk that became full, or has space again; each once.
  std::vector<std::string> take_notices();
  int64_t mapped_bytes() const;

  /// The steps from `start` on, by name [length, ...], as they are stored, with `stepid`.
  Arrays window(const StepId& start) const;

 private:
  struct Worker {
    uint64_t chunk = 0;
    int64_t steps = 0;
    std::deque<StepId> newest;  // at most a window's
  };
  NewBlock new_block();
  void limit_memory();
  int64_t restore_chunks(const Arrays& index, const std::function<Arrays(uint64_t)>& chunk,
                         std::vector<std::string>& problems);
  bool has_steps(StepId start) const;
  void recount();
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
  std::unique_ptr<ChunkFiles> files_;  // null: all chunks are in memory; outlives the chunks
  std::map<uint64_t, Chunk> chunks_;
  /// How many windows begin in a chunk or may still do so, and whether a worker writes it or the
  /// one before it is kept.
  std::map<uint64_t, int64_t> uses_;
  std::map<int64_t, Worker> workers_;
  std::map<int64_t, StepId> starts_;  // by window, the oldest first
  std::deque<StepId> queue_;
  int64_t next_window_ = 0;
  uint64_t next_chunk_ = 1;
  bool is_disk_full_ = false;
  std::vector<std::string> notices_;
};

}  // namespace kinema::replay
