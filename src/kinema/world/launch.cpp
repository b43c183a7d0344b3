#include "kinema/world/launch.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/core/trimmed.h"

namespace kinema::world {
namespace {

/// A variable's integer, at least `least`.
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

/// The variables in which a launcher sets the same four numbers.
struct Names {
  std::string_view launcher;
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;  // empty: not set
};
constexpr Names kOpenMpi{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
// MPICH's and Intel's, and other launchers with an older PMI.
constexpr Names kHydra{"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Names kSlurm{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""};

std::optional<Launch> launch_from(const Names& names, const Environment& environment) {
  const std::optional<int64_t> size = number(environment, names.size, 1);
  const std::optional<int64_t> rank = number(environment, names.rank, 0);
  if (!size || !rank) {
    return std::nullopt;
  }
  check(*rank < *size, "[world] {}={} but {}={}: ranks start at 0", names.rank, *rank, names.size,
        *size);
  return Launch{.launcher = *size > 1 ? Launcher::PMIX : Launcher::NONE,
                .rank = *rank,
                .size = *size,
                .local_rank = number(environment, names.local_rank, 0),
                .local_size = names.local_size.empty() ? std::nullopt
                                                       : number(environment, names.local_size, 1),
                .how = fmt::format("{} ({})", names.launcher, names.rank)};
}

/// The entries of a variable that is a list, `a,b`, without spaces around them.
std::vector<std::string> list(const Environment& environment, std::string_view name) {
  const std::string text = environment(name).value_or("");
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size() && !text.empty();) {
    const size_t end = std::min(text.find(',', at), text.size());
    out.emplace_back(trimmed(std::string_view(text).substr(at, end - at), " \t"));
    check(!out.back().empty(), "[world] {}={}: an entry is empty, `a,b` was expected", name, text);
    at = end + 1;
  }
  return out;
}

/// The host of `host:port`; an IPv6 address with a port is in brackets.
std::string host_of(const std::string& address) {
  const size_t colon = address.rfind(':');
  const bool has_port =
      colon != std::string::npos && (address.find(':') == colon || address[colon - 1] == ']');
  return has_port ? address.substr(0, colon) : address;
}

/// A variable that is set, under its current or an older name.
struct Set {
  std::string name;
  std::string value;
};
std::optional<Set> first_set(const Environment& environment,
                             std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (const std::optional<std::string> value = environment(name)) {
      return Set{.name = std::string(name), .value = *value};
    }
  }
  return std::nullopt;
}

/// The number of processes in a grid, `2,2,1`.
int64_t processes_of(const Set& bounds) {
  int64_t product = 1;
  const Environment own = [&](std::string_view) { return bounds.value; };
  for (const std::string& each : list(own, bounds.name)) {
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(each.data(), each.data() + each.size(), value);
    constexpr int64_t kMost = 1 << 20;
    check(error == std::errc() && stop == each.data() + each.size() && value > 0 &&
              value <= kMost && product <= kMost,
          "[world] {}={}: a grid such as 2,2,1 was expected", bounds.name, bounds.value);
    product *= value;
  }
  return product;
}

/// The index of a process in a slice, and the slice's hosts.
struct InSlice {
  int64_t rank = 0;
  std::vector<std::string> hosts;  // one per process of the slice; empty for a single process
  std::string how;
};

std::string processes_text(int64_t count) {
  return fmt::format("{} process{}", count, count == 1 ? "" : "es");
}

/// `4 hosts`: the length of a list, for messages.
std::string named(const std::vector<std::string>& names, bool addresses) {
  const auto count = std::ssize(names);
  return addresses ? processes_text(count) : counted(count, "host");
}

InSlice find_in_slice(const Environment& environment) {
  constexpr std::string_view kAddresses = "TPU_PROCESS_ADDRESSES";
  constexpr std::string_view kHosts = "TPU_WORKER_HOSTNAMES";
  constexpr std::string_view kTask = "CLOUD_TPU_TASK_ID";
  constexpr std::string_view kWorker = "TPU_WORKER_ID";
  std::vector<std::string> names = list(environment, kAddresses);
  const bool addresses = !names.empty();
  if (!addresses) {
    names = list(environment, kHosts);
  }
  const std::string_view list_name = addresses ? kAddresses : kHosts;
  for (std::string& name : names) {
    name = host_of(name);
  }
  const std::optional<int64_t> task = number(environment, kTask, 0);
  const std::optional<int64_t> worker = number(environment, kWorker, 0);
  // Several processes of one host share its worker number.
  check(addresses || !task || !worker || *task == *worker,
        "[world] {}={} but {}={}\n  with one process per host, both are its index; several are "
        "listed "
        "in {}",
        kTask, *task, kWorker, *worker, kAddresses);
  const bool by_task = task && (addresses || !worker);
  const std::string_view rank_name = by_task ? kTask : kWorker;
  const std::optional<int64_t> rank = by_task ? task : worker;
  const auto count = std::max<int64_t>(std::ssize(names), 1);
  if (const auto bounds = first_set(environment, {"TPU_PROCESS_BOUNDS", "TPU_HOST_BOUNDS"})) {
    const int64_t grid = processes_of(*bounds);
    check(grid == count,
          "[world] {}={} is a grid of {}, but {}\n  {} lists all of them, in order; one host alone "
          "has 1,1,1 and no list",
          bounds->name, bounds->value, processes_text(grid),
          names.empty() ? std::string("no list names them")
                        : fmt::format("{} names {}", list_name, named(names, addresses)),
          addresses || names.empty() ? kAddresses : kHosts);
  }
  if (names.empty()) {
    check(rank.value_or(0) == 0,
          "[world] {}={}, but {} is not set\n  it lists all hosts of the slice, in order",
          rank_name, *rank, by_task ? kAddresses : kHosts);
    return {};
  }
  if (names.size() == 1 && !rank) {
    return {};
  }
  check(rank.has_value(),
        "[world] {} names {}, but {} is not set\n  it is the index of this process, "
        "from 0",
        list_name, named(names, addresses), addresses ? kTask : kWorker);
  check(*rank < count,
        "[world] {}={}, but {} names {}\n  numbers start at 0; it lists all of the "
        "slice, in order",
        rank_name, *rank, list_name, named(names, addresses));
  return {.rank = *rank,
          .hosts = count == 1 ? std::vector<std::string>() : std::move(names),
          .how = std::string(rank_name)};
}

/// The index and number of slices; a single slice has no number.
struct Slices {
  int64_t index = 0;
  int64_t count = 1;
  std::string coordinator = {};  // a host of slice 0
};

Slices find_slices(const Environment& environment) {
  constexpr std::string_view kCount = "MEGASCALE_NUM_SLICES";
  constexpr std::string_view kIndex = "MEGASCALE_SLICE_ID";
  constexpr std::string_view kCoordinator = "MEGASCALE_COORDINATOR_ADDRESS";
  const std::optional<int64_t> count = number(environment, kCount, 1);
  const std::optional<int64_t> index = number(environment, kIndex, 0);
  const std::optional<std::string> coordinator = environment(kCoordinator);
  if (!count) {
    check(index.value_or(0) == 0, "[world] {}={}, but {} is not set\n  it is the number of slices",
          kIndex, *index, kCount);
    return {};
  }
  if (*count == 1) {
    check(index.value_or(0) == 0, "[world] {}={}, but {}=1: slices start at 0", kIndex, *index,
          kCount);
    return {};
  }
  check(index.has_value(),
        "[world] {}={}, but {} is not set\n  it is the number of this host's "
        "slice, from 0",
        kCount, *count, kIndex);
  check(*index < *count, "[world] {}={}, but {}={}: slices start at 0", kIndex, *index, kCount,
        *count);
  check(
      coordinator.has_value(),
      "[world] {}={} of {} slices, but {} is not set\n  it is the first host of slice 0, the same "
      "for all",
      kIndex, *index, *count, kCoordinator);
  return {.index = *index, .count = *count, .coordinator = host_of(*coordinator)};
}

/// The first host in a Slurm list: `node7` of `node[7-9,12],gpu1`.
std::string first_host(const std::string& list) {
  std::string out;
  bool within = false;  // inside brackets, of which the first number is used
  bool taken = false;
  for (const char c : list) {
    if (c == '[' || c == ']') {
      within = c == '[';
      taken = false;
    } else if (within) {
      taken = taken || c == ',' || c == '-';
      out += taken ? "" : std::string(1, c);
    } else if (c == ',') {
      break;
    } else {
      out += c;
    }
  }
  check(!within && !out.empty(), "[world] SLURM_STEP_NODELIST={}: a list of hosts was expected",
        list);
  return out;
}

/// `srun` without PMIx: process 0 is on the first host, on a port that is computed from the job's
/// and the step's number.
Launch with_tcp_coordinator(Launch launch, const Environment& environment) {
  const std::optional<std::string> hosts = environment("SLURM_STEP_NODELIST");
  const std::optional<int64_t> job = number(environment, "SLURM_JOB_ID", 0);
  check(hosts && job,
        "[world] srun started {} processes without PMIx, and SLURM_STEP_NODELIST or SLURM_JOB_ID "
        "is not set, so they cannot connect\n"
        "  srun --mpi=pmix ... starts them with PMIx (srun --mpi=list names the choices)",
        launch.size);
  constexpr int64_t kPorts = 4096;  // the upper ones, which the system does not assign
  // Steps of one job run at the same time, and so do jobs with consecutive numbers.
  constexpr int64_t kStep = 97;
  const int64_t step = number(environment, "SLURM_STEP_ID", 0).value_or(0);
  const int64_t port = 65536 - kPorts + (*job % kPorts + step % kPorts * kStep) % kPorts;
  launch.launcher = Launcher::TCP;
  launch.coordinator = fmt::format("{}:{}", first_host(*hosts), port);
  return launch;
}

}  // namespace

Environment own_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr || *value == 0 ? std::nullopt : std::optional<std::string>(value);
  };
}

Launch detect_launch(const Environment& environment) {
  const bool has_pmix = environment("PMIX_NAMESPACE").has_value();
  if (const std::optional<Launch> launch = launch_from(kOpenMpi, environment)) {
    return *launch;
  }
  const std::optional<Launch> slurm = launch_from(kSlurm, environment);
  std::optional<Launch> hydra = has_pmix ? std::nullopt : launch_from(kHydra, environment);
  // `srun --mpi=pmi2` sets both equally; within a job, mpiexec uses srun to start a helper on each
  // host, and Slurm's numbers are the helper's.
  if (hydra && !(slurm && slurm->rank == hydra->rank && slurm->size == hydra->size)) {
    if (hydra->size > 1) {
      hydra->launcher = Launcher::TCP;
    }
    return *hydra;
  }
  if (slurm) {
    return slurm->size == 1 || has_pmix ? *slurm : with_tcp_coordinator(*slurm, environment);
  }
  if (has_pmix) {  // prterun: PMIx has the size
    const std::optional<int64_t> rank = number(environment, "PMIX_RANK", 0);
    check(rank.has_value(), "[world] PMIX_NAMESPACE is set without PMIX_RANK");
    return {.launcher = Launcher::PMIX,
            .rank = *rank,
            .size = *rank + 1,
            .is_size_known = false,
            .local_rank = {},
            .local_size = {},
            .how = "PMIx (PMIX_RANK)"};
  }
  return {.how = "one process: no launcher"};
}

Launch detect_tpu_launch(const Environment& environment) {
  const InSlice in_slice = find_in_slice(environment);
  const Slices slices = find_slices(environment);
  const auto workers = std::max<int64_t>(std::ssize(in_slice.hosts), 1);
  const int64_t size = workers * slices.count;
  if (size == 1) {
    return {.how = "one process: no launcher"};
  }
  std::string how = in_slice.how;
  if (slices.count > 1) {
    how += how.empty() ? "MEGASCALE_SLICE_ID" : ", MEGASCALE_SLICE_ID";
  }
  // kinema's port; libtpu's start at 8470.
  constexpr int kPort = 8490;
  return {.launcher = Launcher::TCP,
          .rank = in_slice.rank + slices.index * workers,
          .size = size,
          .local_rank = {},
          .local_size = {},
          .coordinator = fmt::format(
              "{}:{}", slices.count > 1 ? slices.coordinator : in_slice.hosts.front(), kPort),
          .has_own_console = true,
          .how = fmt::format("the TPU's environment ({})", how)};
}

Environment with_tpu_metadata(
    Environment environment,
    const std::function<std::optional<std::string>(std::string_view attribute)>& metadata) {
  for (const char* const name : {"TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES", "CLOUD_TPU_TASK_ID",
                                 "TPU_PROCESS_ADDRESSES", "TPU_SKIP_MDS_QUERY"}) {
    if (environment(name)) {
      return environment;
    }
  }
  const std::optional<std::string> number = metadata("agent-worker-number");
  const std::optional<std::string> endpoints = metadata("worker-network-endpoints");
  if (!number || !endpoints) {
    return environment;
  }
  // `unknown:unknown:10.164.0.2,unknown:unknown:10.164.0.3`, in the order of workers
  std::string hosts;
  const Environment own = [&](std::string_view) { return endpoints; };
  for (const std::string& each : list(own, "worker-network-endpoints")) {
    hosts += fmt::format("{}{}", hosts.empty() ? "" : ",", each.substr(each.rfind(':') + 1));
  }
  return [environment = std::move(environment), number, hosts](std::string_view name) {
    return name == "TPU_WORKER_ID"          ? number
           : name == "TPU_WORKER_HOSTNAMES" ? std::optional(hosts)
                                            : environment(name);
  };
}

Launch with_coordinator(Launch found, const std::string& coordinator) {
  if (found.launcher == Launcher::TCP && !coordinator.empty()) {
    found.coordinator = coordinator;
  }
  check(found.launcher != Launcher::TCP || !found.coordinator.empty(),
        "[coordinator_address] {} started {} processes, but does not say where they connect\n"
        "  coordinator_address=HOST:PORT on the command line, of process 0's host and a free port; "
        "Open MPI's mpirun needs none",
        found.how, found.size);
  return found;
}

Launch configured_launch(Launch found, int64_t rank, std::optional<int64_t> given_size,
                         const std::string& coordinator) {
  const int64_t size = given_size.value_or(1);
  if (found.size > 1 || !found.is_size_known) {
    check(size == 1 || !found.is_size_known || (size == found.size && rank == found.rank),
          "[num_processes] process_id={} of num_processes={}, but {} says that this is process {} "
          "of {}\n  leave the keys out",
          rank, size, found.how, found.rank, found.size);
    return with_coordinator(std::move(found), coordinator);
  }
  check(size > 1 || rank == 0,
        "[num_processes] process_id={} is given, but num_processes is 1, the default\n"
        "  num_processes=N for each of N processes",
        rank);
  check(
      size > 1 || given_size || coordinator.empty() || !found.is_size_known,
      "[num_processes] coordinator_address={} is given, but not how many processes connect there\n"
      "  num_processes=N process_id=I for each of N processes; num_processes=1 for one alone",
      coordinator);
  if (size == 1) {
    return found;
  }
  check(rank < size, "[process_id] {} of num_processes={}: numbers start at 0", rank, size);
  check(!coordinator.empty(),
        "[coordinator_address] num_processes={}, but nothing says where process 0 is: HOST:PORT of "
        "its host, a free port",
        size);
  return {.launcher = Launcher::TCP,
          .rank = rank,
          .size = size,
          .local_rank = {},
          .local_size = {},
          .coordinator = coordinator,
          .has_own_console = true,
          .how = "keys (process_id)"};
}

}  // namespace kinema::world
