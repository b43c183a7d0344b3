// What the processes of a large run exchange before the first step, over TCP: each is a thread with
// sockets of its own (1,024 of them: four of this program with --processes 1024 --here 256 and
// --first 0, 256, 512, 768). A start record is compared, and keys are put and read as a
// CUDA plugin does.
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "kinema/command/command.h"
#include "kinema/config/keys.h"
#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/world/communicator.h"
#include "kinema/world/consistency.h"
#include "kinema/world/tcp_engine.h"

namespace kinema::bench {
namespace {

struct Settings {
  int64_t processes = 256;
  int64_t first = 0;  // which of them are here: each takes some twenty open files
  int64_t here = 256;
  int64_t port = 8491;
  int64_t topology_bytes = 250;  // of a process with one GPU
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
void in_all(const std::string& name, const Settings& settings, const Work& work) {
  const Part part(name);
  std::vector<std::thread> all;
  std::vector<std::string> errors(static_cast<size_t>(settings.processes));
  const int64_t end = std::min(settings.processes, settings.first + settings.here);
  for (int64_t rank = settings.first; rank < end; ++rank) {
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
  if (settings.first == 0) {
    part.done(settings.processes);
  }
}

int run(const Settings& settings) {
  const int64_t count = settings.processes;
  struct Process {
    std::shared_ptr<world::Engine> engine;
    world::Communicator communicator;
  };
  std::vector<Process> all(static_cast<size_t>(count));
  const auto at = [&](int64_t rank) -> Process& { return all[static_cast<size_t>(rank)]; };
  in_all("meeting", settings, [&](int64_t rank) {
    at(rank).engine = world::join_over_tcp(
        {.rank = rank, .size = count, .coordinator = fmt::format("127.0.0.1:{}", settings.port)});
    at(rank).communicator = world::Communicator(at(rank).engine);
  });
  in_all("names of hosts", settings, [&](int64_t rank) {
    at(rank).communicator.gather(fmt::format("gpu-node-{}", rank), {.what = "the start"});
  });
  in_all("start record", settings, [&](int64_t rank) {
    world::StartRecord record;
    for (const config::KeyValue& each : config::describe(config::Config())) {
      record.emplace_back(each.key, each.value);
    }
    const auto name = [](int64_t of) { return world::ranks_text({of}); };
    world::check_consistent(at(rank).communicator, name, record, "the start");
  });
  const auto topology = [&](int64_t nodes) {
    return std::string(static_cast<size_t>(nodes * settings.topology_bytes), 't');
  };
  in_all("keys of a CUDA plugin", settings, [&](int64_t rank) {
    // world::Keys counts its objects, which are of one process here.
    const std::string prefix = "all/";
    world::Engine& engine = *at(rank).engine;
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
  in_all("the end", settings, [&](int64_t rank) {
    at(rank).communicator.barrier({.what = "the end"});
    at(rank) = {};
  });
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
  command.option("--first", given->first, "the first one that is here").shows_default();
  command.option("--here", given->here, "how many are here").shows_default();
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
