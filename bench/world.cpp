// What the processes of a large run exchange before the first step, over TCP: each is a thread of
// this process with sockets of its own. A start record is compared, and keys are put and read as a
// CUDA plugin does.
#include <fmt/core.h>

#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "kinema/command/command.h"
#include "kinema/config/keys.h"
#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/world/agreement.h"
#include "kinema/world/world.h"

namespace kinema::bench {
namespace {

struct Settings {
  int64_t processes = 1024;
  int64_t port = 8491;
  int64_t topology_bytes = 1000;  // of a host with eight GPUs
};

/// Bytes that went over the loopback so far.
int64_t loopback_bytes() {
  std::ifstream file("/sys/class/net/lo/statistics/tx_bytes");
  int64_t bytes = 0;
  file >> bytes;
  return bytes;
}

/// A part of the start in all processes: over when the last has done it.
class Part {
 public:
  explicit Part(std::string name) : name_(std::move(name)), before_(loopback_bytes()) {}
  void done(int64_t processes) const {
    const double seconds = watch_.seconds();
    const auto bytes = static_cast<double>(loopback_bytes() - before_);
    fmt::print("{:24} {:8.2f} s {:10.1f} kB a process\n", name_, seconds,
               bytes / 1e3 / static_cast<double>(processes));
    std::fflush(stdout);
  }

 private:
  std::string name_;
  Stopwatch watch_;
  int64_t before_;
};

template <typename Work>
void in_all(const std::string& name, int64_t processes, const Work& work) {
  const Part part(name);
  std::vector<std::thread> all;
  std::vector<std::string> errors(static_cast<size_t>(processes));
  for (int64_t rank = 0; rank < processes; ++rank) {
    all.emplace_back([&, rank] {
      try {
        work(rank);
      } catch (const Error& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& each : all) {
    each.join();
  }
  for (const std::string& error : errors) {
    check(error.empty(), "{}", error);
  }
  part.done(processes);
}

int run(const Settings& settings) {
  const int64_t count = settings.processes;
  std::vector<std::shared_ptr<world::World>> worlds(static_cast<size_t>(count));
  in_all("meeting, hosts", count, [&](int64_t rank) {
    worlds[static_cast<size_t>(rank)] =
        world::World::join({.launcher = world::Launcher::TCP,
                            .rank = rank,
                            .size = count,
                            .local_rank = {},
                            .local_size = {},
                            .coordinator = fmt::format("127.0.0.1:{}", settings.port),
                            .how = "bench"});
    worlds[static_cast<size_t>(rank)]->pulse()->set_timeout(3600);
  });
  in_all("start record", count, [&](int64_t rank) {
    world::StartRecord record;
    for (const config::KeyValue& each : config::describe(config::Config())) {
      record[std::string(each.key)] = each.value;
    }
    world::check_alike(*worlds[static_cast<size_t>(rank)], record, "the start");
  });
  const auto topology = [&](int64_t nodes) {
    return std::string(static_cast<size_t>(nodes * settings.topology_bytes), 't');
  };
  in_all("keys of a CUDA plugin", count, [&](int64_t rank) {
    // world::Keys counts its objects, which are of one process here.
    const std::string prefix = "all/";
    world::Engine& engine = *worlds[static_cast<size_t>(rank)]->engine();
    const auto get = [&](const std::string& key) {
      for (const Stopwatch watch;;) {
        if (std::optional<std::string> value = engine.get(prefix + key)) {
          return *std::move(value);
        }
        check(watch.seconds() < 600, "[bench] `{}` never came", key);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    };
    engine.put(prefix + fmt::format("local_topology/{}", rank), topology(1));
    if (rank == 0) {
      for (int64_t node = 0; node < count; ++node) {
        get(fmt::format("local_topology/{}", node));
      }
      engine.put(prefix + "global_topology", topology(count));
    }
    get("global_topology");
    if (rank == 0) {
      engine.put(prefix + "nccl/0", std::string(128, 'n'));
    }
    get("nccl/0");
  });
  in_all("the end", count, [&](int64_t rank) { worlds[static_cast<size_t>(rank)].reset(); });
  return 0;
}

}  // namespace
}  // namespace kinema::bench

int main(int argc, char** argv) {
  kinema::command::Program program("bench_world", "",
                                   "What the processes of a large run exchange at the start");
  kinema::command::Command command = program.itself();
  const auto given = std::make_shared<kinema::bench::Settings>();
  command.option("--processes", given->processes).shows_default();
  command.option("--port", given->port, "a free one").shows_default();
  command.option("--topology-bytes", given->topology_bytes, "of a host").shows_default();
  command.run([given] { return kinema::bench::run(*given); });
  try {
    return program.run(argc, argv);
  } catch (const kinema::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
