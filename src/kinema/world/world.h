#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kinema/world/communicator.h"
#include "kinema/world/place.h"
#include "kinema/world/pulse.h"

namespace kinema::world {

/// The processes of a run, of which this is one.
class World {
 public:
  /// This process alone.
  World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  /// Waits for the others, unless the run failed.
  ~World();

  /// What a launcher started, loading what speaks to the others only where there are some. Returns
  /// when all processes have come. Call it once a process. Throws an Error where the module of the
  /// launcher cannot be loaded, or the others do not come.
  /// `on_wait`: called once, with a line for people, where the others take long to come.
  static std::shared_ptr<World> join(const Place& place,
                                     const std::function<void(const std::string&)>& on_wait = {});

  int64_t rank() const { return place_.rank; }
  int64_t size() const { return place_.size; }
  bool is_alone() const { return place_.size == 1; }
  /// Process 0, which writes what there is one of.
  bool is_first() const { return place_.rank == 0; }
  const Place& place() const { return place_; }
  /// Host names, by rank; those of one process: its own.
  const std::vector<std::string>& hosts() const { return hosts_; }
  /// `process 3 on HOST`
  std::string name_of(int64_t rank) const;
  int64_t host_count() const;
  /// `4 processes on 2 hosts, by mpirun (OMPI_COMM_WORLD_RANK), Open MPI 4.1.4`
  std::string text() const;

  /// Null for one process.
  const std::shared_ptr<Engine>& engine() const { return engine_; }
  /// For the main thread of a job.
  Communicator& talk() { return talk_; }
  /// Another one, for another thread; all processes make theirs at the same point.
  Communicator communicator() const;

  /// Says what this process does now: at which step, `waiting for data`. What is long is not judged
  /// by how long it takes.
  void begin(int64_t step, const std::string& doing, bool is_long = false);
  /// Why the run cannot go on, as far as this process knows: the error of another, or that one is
  /// lost. Empty while all is well.
  std::string failure() const { return pulse_ ? pulse_->failure() : ""; }
  /// Null for one process.
  Pulse* pulse() { return pulse_.get(); }

 private:
  void count_local();

  Place place_;
  std::vector<std::string> hosts_;
  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Pulse> pulse_;
  Communicator talk_;
};

}  // namespace kinema::world
