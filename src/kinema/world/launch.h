#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::world {

/// The launcher of a run's processes, which determines how they connect.
enum class Launcher : uint8_t {
  NONE,  ///< a single process
  PMIX,  ///< mpirun, prterun or `srun --mpi=pmix`, which provide PMIx
  TCP,   ///< rank and coordinator's address are given: srun, a TPU pod, keys, or
         ///< MPICH's mpiexec with a key for the address
};

/// The rank of this process, from its launcher's environment.
struct Launch {
  Launcher launcher = Launcher::NONE;
  int64_t rank = 0;
  int64_t size = 1;
  bool is_size_known = true;  ///< if false, the launcher provides it later
  /// The rank and size among the processes of this host; empty if the launcher does not set them.
  std::optional<int64_t> local_rank;
  std::optional<int64_t> local_size;
  /// For Launcher::TCP: `host:port` where process 0 listens; empty if not known yet.
  std::string coordinator = {};
  /// No launcher collects the processes' output: each has its own console.
  bool has_own_console = false;
  /// The source: `mpirun (OMPI_COMM_WORLD_RANK)`, `one process: no launcher`.
  std::string how;
};

/// Returns an environment variable; nothing if it is not set.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
/// The environment of this process.
Environment own_environment();

/// The launch described by the environment. Throws an Error for invalid or
/// contradictory numbers.
Launch detect_launch(const Environment& environment);

/// The launch from the variables with which libtpu forms a pod, for processes on TPUs without a
/// launcher: TPU_WORKER_ID among TPU_WORKER_HOSTNAMES, or CLOUD_TPU_TASK_ID among
/// TPU_PROCESS_ADDRESSES; for several slices, MEGASCALE_SLICE_ID of MEGASCALE_NUM_SLICES. Throws an
/// Error with the remedy if they contradict each other.
Launch detect_tpu_launch(const Environment& environment);

/// The environment of a TPU host, extended by the host's metadata server if no variable lists the
/// hosts of its slice (`attribute`: `agent-worker-number`, `worker-network-endpoints`; returns
/// nothing if the server does not answer).
Environment with_tpu_metadata(
    Environment environment,
    const std::function<std::optional<std::string>(std::string_view attribute)>& metadata);

/// `found` with the address `coordinator`, if that is given. Throws an Error if the processes use
/// TCP and no address is known.
Launch with_coordinator(Launch found, const std::string& coordinator);

/// The launch from keys (`process_id`, `num_processes`, `coordinator_address`) and `found`: `found`
/// with another coordinator address, or, if `found` is a single process, the one in the keys.
/// `given_size`: nothing if the user did not set it. Throws an Error if they contradict each other.
Launch configured_launch(Launch found, int64_t rank, std::optional<int64_t> given_size,
                         const std::string& coordinator);

}  // namespace kinema::world
