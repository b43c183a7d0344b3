#include "kinema/world/place.h"

#include <charconv>
#include <cstdlib>

#include "kinema/core/error.h"

namespace kinema::world {
namespace {

/// The whole number of at least `least` in a variable.
std::optional<int64_t> number(const Environment& environment, std::string_view name,
                              int64_t least) {
  const std::optional<std::string> text = environment(name);
  if (!text) {
    return std::nullopt;
  }
  int64_t value = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  check(error == std::errc() && stop == end && value >= least,
        "[world] {}={}: a whole number of at least {} was expected, as launchers set it", name,
        *text, least);
  return value;
}

/// The names under which a launcher tells the same four numbers.
struct Names {
  std::string_view launcher;
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;  // empty: not told
};
constexpr Names kOpenMpi{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kSlurm{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""};

std::optional<Place> told_by(const Names& names, const Environment& environment) {
  const std::optional<int64_t> size = number(environment, names.size, 1);
  const std::optional<int64_t> rank = number(environment, names.rank, 0);
  if (!size || !rank) {
    return std::nullopt;
  }
  check(*rank < *size, "[world] {}={} but {}={}: ranks begin with 0", names.rank, *rank, names.size,
        *size);
  return Place{.launcher = *size > 1 ? Launcher::PMIX : Launcher::NONE,
               .rank = *rank,
               .size = *size,
               .local_rank = number(environment, names.local_rank, 0),
               .local_size = names.local_size.empty() ? std::nullopt
                                                      : number(environment, names.local_size, 1),
               .how = fmt::format("{} ({})", names.launcher, names.rank)};
}

}  // namespace

Environment own_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr || *value == 0 ? std::nullopt : std::optional<std::string>(value);
  };
}

Place find_place(const Environment& environment) {
  const bool has_pmix = environment("PMIX_NAMESPACE").has_value();
  if (const std::optional<Place> place = told_by(kOpenMpi, environment)) {
    return *place;
  }
  if (const std::optional<Place> place = told_by(kSlurm, environment)) {
    check(place->size == 1 || has_pmix,
          "[world] srun started {} processes without PMIx, so they cannot find each other\n"
          "  srun --mpi=pmix ... starts them with it (srun --mpi=list names what this Slurm has)",
          place->size);
    return *place;
  }
  if (has_pmix) {  // prterun: the size is PMIx's to tell
    const std::optional<int64_t> rank = number(environment, "PMIX_RANK", 0);
    check(rank.has_value(), "[world] PMIX_NAMESPACE is set without PMIX_RANK");
    return {.launcher = Launcher::PMIX,
            .rank = *rank,
            .size = *rank + 1,
            .knows_size = false,
            .local_rank = {},
            .local_size = {},
            .how = "PMIx (PMIX_RANK)"};
  }
  return {.how = "one process: no launcher"};
}

}  // namespace kinema::world
