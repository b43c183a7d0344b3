#pragma once

#include <cstdint>
#include <string>

#include "kinema/preparation/record_maker.h"
#include "kinema/world/world.h"

/// Records that the processes of a world make together: in turn, each a clip; process 0 takes them
/// in the order of the clips and writes them.
namespace kinema::preparation {

/// Process 0's end of it.
class RecordsOfOthers {
 public:
  /// `first`: the place that process 0 makes itself, the next is process 1's and so on; negative:
  /// there is nothing to make.
  RecordsOfOthers(world::World& world, int64_t first);

  /// Whose the place is.
  int64_t maker(int64_t place) const { return (place - first_) % world_.size(); }
  /// The next record of another process. Waits for it.
  MadeRecord take(int64_t from);
  /// True once one of the others was asked to stop.
  bool stop_requested() const { return stop_; }
  /// No more are taken; `made` is what the others are told of the whole.
  void finish(const Prepared& made);

 private:
  world::World& world_;
  int64_t first_;
  bool stop_ = false;
};

/// Makes records until process 0 takes no more, and returns what it says of the whole: where it
/// ended, and whether it was stopped. Called by all but process 0 while that makes a
/// RecordsOfOthers.
Prepared make_records_for_first(world::World& world, const Options& options,
                                const Encoders& encoders, const Hooks& hooks,
                                const ListedClips& clips);

}  // namespace kinema::preparation
