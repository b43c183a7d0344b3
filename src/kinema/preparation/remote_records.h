#pragma once

#include <cstdint>
#include <string>

#include "kinema/preparation/record_maker.h"
#include "kinema/world/world.h"

/// Distributes the records over the processes of a world: in turn, one clip each; process 0
/// receives them in the order of the clips and writes them.
namespace kinema::preparation {

/// Process 0's side.
class RemoteRecords {
 public:
  /// `first`: the first place, which process 0 makes itself; the next one is process 1's and so on;
  /// negative: there is nothing to make.
  RemoteRecords(world::World& world, int64_t first);

  /// The process that makes the record of a place.
  int64_t maker(int64_t place) const { return (place - first_) % world_.size(); }
  /// The next record of another process. Waits for it.
  EncodedRecord take(int64_t from);
  /// True if another process was asked to stop.
  bool stop_requested() const { return stop_; }
  /// Ends the distribution; `made` is broadcast as the result.
  void finish(const Prepared& made);

 private:
  world::World& world_;
  int64_t first_;
  bool stop_ = false;
};

/// Makes records until process 0 ends the distribution; returns its result: the end, and whether it
/// was stopped. Called by all other processes while process 0 uses a RemoteRecords.
Prepared make_records_for_first(world::World& world, const Options& options,
                                const Encoders& encoders, const Hooks& hooks,
                                const ListedClips& clips);

}  // namespace kinema::preparation
