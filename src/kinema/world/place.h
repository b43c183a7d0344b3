#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace kinema::world {

/// What started the processes of a run, and so how they find each other.
enum class Launcher : uint8_t {
  NONE,   ///< this is the only one
  PMIX,   ///< mpirun, prterun or `srun --mpi=pmix`, which serve PMIx
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
  /// How it was found: `mpirun (OMPI_COMM_WORLD_RANK)`, `one process: no launcher`.
  std::string how;
};

/// Looks a variable of the environment up; nothing where it is not set.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
/// That of this process.
Environment own_environment();

/// What the environment says, without asking anything else. Throws an Error for numbers that are
/// none or contradict each other, and for processes that were started so that they cannot find each
/// other (`srun` without PMIx), with the remedy.
Place find_place(const Environment& environment);

}  // namespace kinema::world
