#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kinema/world/communicator.h"
#include "kinema/world/heartbeat.h"
#include "kinema/world/launch.h"

namespace kinema::world {

/// The processes of a run, as seen by this one.
class World {
 public:
  /// A single process.
  World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  /// Waits for the other processes, unless the run failed.
  ~World();

  /// Connects the processes that a launcher started; loads the launcher's module only if there are
  /// several. Returns when all processes have arrived. Call it once per process. Throws an Error if
  /// the module cannot be loaded, or if the others do not arrive. `on_wait`: called once, with a
  /// log line, if they take long.
  static std::shared_ptr<World> join(const Launch& launch,
                                     const std::function<void(const std::string&)>& on_wait = {});

  int64_t rank() const { return launch_.rank; }
  int64_t size() const { return launch_.size; }
  bool is_alone() const { return launch_.size == 1; }
  /// Process 0, which writes shared files.
  bool is_first() const { return launch_.rank == 0; }
  const Launch& launch() const { return launch_; }
  /// Host names, by rank; for a single process its own.
  const std::vector<std::string>& hosts() const { return hosts_; }
  /// `process 3 on HOST`
  std::string name_of(int64_t rank) const;
  int64_t host_count() const;
  /// `4 processes on 2 hosts, by mpirun (OMPI_COMM_WORLD_RANK), Open MPI 4.1.4`
  std::string text() const;

  /// Null for a single process.
  const std::shared_ptr<Engine>& engine() const { return engine_; }
  /// For the main thread of a job.
  Communicator& communicator() { return communicator_; }
  /// Another communicator, for another thread. Collective.
  Communicator new_communicator() const;

  /// Reports what this process does: at which step, `waiting for data`. A long operation has no
  /// timeout.
  void begin(int64_t step, const std::string& doing, bool is_long = false);
  /// Why the run failed, as far as this process knows: the error of another process, or that it is
  /// lost. Empty if it has not failed.
  std::string failure() const { return heartbeat_ ? heartbeat_->failure() : ""; }
  /// Null for a single process.
  Heartbeat* heartbeat() { return heartbeat_.get(); }

 private:
  void count_local();

  Launch launch_;
  std::vector<std::string> hosts_;
  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Heartbeat> heartbeat_;
  Communicator communicator_;
};

}  // namespace kinema::world
