#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::world {

/// What started the processes of a run, and so how they find each other.
enum class Launcher : uint8_t {
  NONE,  ///< this is the only one
  PMIX,  ///< mpirun, prterun or `srun --mpi=pmix`, which serve PMIx
  TCP,   ///< each was told its number and where process 0 listens: srun, a TPU's pod, keys, or
         ///< MPICH's mpiexec with a key for the latter
};

/// Which of a run's processes this is, as its launcher's environment says.
struct Place {
  Launcher launcher = Launcher::NONE;
  int64_t rank = 0;
  int64_t size = 1;
  bool knows_size = true;  ///< else it is the launcher's to tell
  /// The same among the processes of this host; empty where the launcher does not say.
  std::optional<int64_t> local_rank;
  std::optional<int64_t> local_size;
  /// Of Launcher::TCP: `host:port`, where process 0 listens; empty where nothing says it yet.
  std::string coordinator = {};
  /// No launcher gathers what the processes print: each is its own console's.
  bool has_own_console = false;
  /// How it was found: `mpirun (OMPI_COMM_WORLD_RANK)`, `one process: no launcher`.
  std::string how;
};

/// Looks a variable of the environment up; nothing where it is not set.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
/// That of this process.
Environment own_environment();

/// What the environment says, without asking anything else. Throws an Error for numbers that are
/// none or contradict each other.
Place find_place(const Environment& environment);

/// What the variables say that libtpu forms a pod from, for processes on TPUs that no launcher
/// started: TPU_WORKER_ID among TPU_WORKER_HOSTNAMES, or CLOUD_TPU_TASK_ID among
/// TPU_PROCESS_ADDRESSES; of several slices, MEGASCALE_SLICE_ID of MEGASCALE_NUM_SLICES. Throws an
/// Error for those that contradict each other, with the remedy.
Place find_tpu_place(const Environment& environment);

/// The environment of a TPU's host, with what the host's metadata server says where no variable
/// names the hosts of its slice (`attribute`: `agent-worker-number`, `worker-network-endpoints`;
/// nothing where it does not answer).
Environment with_tpu_metadata(
    Environment environment,
    const std::function<std::optional<std::string>(std::string_view attribute)>& metadata);

/// `found`, whose processes meet at `coordinator` where that is given. Throws an Error where they
/// meet over TCP and nothing says where.
Place meeting_at(Place found, const std::string& coordinator);

/// What keys say (`process_id`, `num_processes`, `coordinator_address`) of what else `found` the
/// process: `found` with another coordinator's address, or, where that is one process alone, a
/// place of its own. `told_size`: nothing where nobody gave it. Throws an Error where they
/// contradict each other.
Place told_place(Place found, int64_t rank, std::optional<int64_t> told_size,
                 const std::string& coordinator);

}  // namespace kinema::world
