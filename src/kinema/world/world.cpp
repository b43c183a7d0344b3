#include "kinema/world/world.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/core/quantities.h"
#include "kinema/world/tcp_engine.h"

namespace kinema::world {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

// Next to the program in a build, or above its tests; in lib/kinema/mpi of an installation.
constexpr const char* kModule = "kinema_mpi.so";

std::string module_path() {
  std::error_code error;
  for (const char* place : {"../lib/kinema/mpi", ".", ".."}) {
    const std::filesystem::path path = (program_folder() / place / kModule).lexically_normal();
    if (std::filesystem::is_regular_file(path, error)) {
      return path.string();
    }
  }
  return "";
}

/// The engine of a launcher. The module stays loaded, because MPI cannot be initialised twice.
std::shared_ptr<Engine> load_engine(const Launch& launch) {
  const std::string path = module_path();
  check(!path.empty(),
        "[world] {} started this process as one of several, but {} is missing in `{}`\n"
        "  it is built where Open MPI is installed (libopenmpi-dev)",
        launch.how, kModule, program_folder().string());
  // RTLD_GLOBAL: components that MPI loads need its symbols.
  void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  check(module != nullptr,
        "[world] {} started this process as one of several, but {} cannot be loaded: {}\n"
        "  install Open MPI's libraries (libopenmpi3)",
        launch.how, path, module == nullptr ? dlerror() : "");
  const auto make = reinterpret_cast<MakeEngine>(dlsym(module, kEngineSymbol));
  check(make != nullptr, "[world] {} is not a module of this program", path);
  std::string error;
  std::shared_ptr<Engine> engine(make(&error));
  check(engine != nullptr, "[world] {}", error);
  return engine;
}

}  // namespace

World::World() : launch_{.how = "one process: no launcher"}, hosts_{host_name()} {}
World::~World() {
  if (!engine_) {
    return;
  }
  bool together = heartbeat_ && failure().empty();
  if (together) {
    try {
      // Heartbeats continue until all have arrived; a process that still works is not an error.
      communicator_.barrier({.what = "the end", .seconds = 3600});
    } catch (const Error&) {
      together = false;  // the failed process reports it
    }
  }
  heartbeat_.reset();
  if (!together) {
    // MPI_Finalize waits for lost processes; the process ends without it.
    static auto* const kept = new std::vector<std::shared_ptr<Engine>>();
    kept->push_back(std::move(engine_));
  }
}

Communicator World::new_communicator() const {
  return is_alone() ? Communicator() : Communicator(engine_, [this] { return failure(); });
}

void World::begin(int64_t step, const std::string& doing, bool is_long) {
  if (heartbeat_) {
    heartbeat_->begin(step, doing, is_long);
  }
}

std::shared_ptr<World> World::join(const Launch& launch,
                                   const std::function<void(const std::string&)>& on_wait) {
  auto world = std::make_shared<World>();
  world->launch_ = launch;
  if (launch.launcher == Launcher::NONE) {
    return world;
  }
  world->engine_ = launch.launcher == Launcher::TCP
                       ? join_over_tcp({.rank = launch.rank,
                                        .size = launch.size,
                                        .coordinator = launch.coordinator,
                                        .on_wait = on_wait})
                       : load_engine(launch);
  const Engine& engine = *world->engine_;
  check(engine.rank() == launch.rank, "[world] {} says that this is process {}, {} that it is {}",
        launch.how, launch.rank, engine.name(), engine.rank());
  check(!launch.is_size_known || engine.size() == launch.size,
        "[world] {} says that there are {} processes, {} that there are {}", launch.how,
        launch.size, engine.name(), engine.size());
  world->launch_.size = engine.size();
  if (engine.size() > 1) {
    world->hosts_ = Communicator(world->engine_).gather(host_name(), {.what = "the start"});
    std::vector<std::string> names;
    for (int64_t rank = 0; rank < engine.size(); ++rank) {
      names.push_back(world->name_of(rank));
    }
    world->heartbeat_ =
        std::make_unique<Heartbeat>(world->engine_, std::move(names), HeartbeatOptions());
    world->communicator_ = world->new_communicator();
    world->count_local();
  }
  return world;
}

/// Counts the processes of this host, because launchers may not set the number.
void World::count_local() {
  const std::string own = hosts_[static_cast<size_t>(rank())];
  const auto first = hosts_.begin();
  launch_.local_rank = std::count(first, first + rank(), own);
  launch_.local_size = std::ranges::count(hosts_, own);
}

int64_t World::host_count() const {
  return std::ssize(std::set<std::string>(hosts_.begin(), hosts_.end()));
}

std::string World::name_of(int64_t rank) const {
  return fmt::format("process {} on {}", rank, hosts_.at(static_cast<size_t>(rank)));
}

std::string World::text() const {
  if (is_alone()) {
    return launch_.how;
  }
  return fmt::format("{} processes on {}, by {}{}", size(), counted(host_count(), "host"),
                     launch_.how, engine_ ? ", " + engine_->name() : "");
}

}  // namespace kinema::world
