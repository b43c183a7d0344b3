#include "kinema/cluster/cpu_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kinema/cluster/exchange.h"
#include "kinema/cluster/handlers.h"
#include "kinema/core/error.h"
#include "kinema/core/fingerprint.h"
#include "kinema/core/stopwatch.h"
#include "kinema/pjrt/collective_calls.h"
#include "kinema/pjrt/multi_process_executable.h"
#include "kinema/world/communicator.h"

namespace kinema::cluster {
namespace {

constexpr double kLongestCompile = 4 * 3600;  // seconds; a lost process is detected otherwise

/// Serialises the runs of all shared programs of a process.
class RunOrder {
 public:
  void begin() {
    std::vector<pjrt::Event> before;
    {
      const std::lock_guard lock(mutex_);
      before = std::exchange(last_, {});
    }
    for (const pjrt::Event& each : before) {
      try {
        each.await();
      } catch (const Error&) {
        // The reader of its results gets the error.
      }
    }
  }
  void started(std::vector<pjrt::Event> done) {
    const std::lock_guard lock(mutex_);
    last_ = std::move(done);
  }

 private:
  std::mutex mutex_;
  std::vector<pjrt::Event> last_;
};

class Run : public pjrt::MultiProcessRun {
 public:
  Run(pjrt::PartitionedProgram program, std::shared_ptr<const void> served,
      std::shared_ptr<RunOrder> order)
      : program_(std::move(program)), served_(std::move(served)), order_(std::move(order)) {}
  ~Run() override { order_->begin(); }  // its calls are served until the end

  const pjrt::PartitionedProgram& program() const override { return program_; }
  void begin() override { order_->begin(); }
  void started(std::vector<pjrt::Event> done) override { order_->started(std::move(done)); }

 private:
  pjrt::PartitionedProgram program_;
  std::shared_ptr<const void> served_;
  std::shared_ptr<RunOrder> order_;
};

class CpuCluster : public pjrt::MultiProcessCompiler {
 public:
  /// A single process.
  CpuCluster() : exchange_(std::make_shared<Exchange>(nullptr, std::function<std::string()>())) {}
  CpuCluster(std::shared_ptr<world::Engine> engine, const std::function<std::string()>& failed)
      : communicator_(engine, failed),
        exchange_(std::make_shared<Exchange>(std::move(engine), failed)) {}

  pjrt::Executable compile(const pjrt::Client& client, std::string_view program,
                           const pjrt::CompileOptions& options) override {
    check_same_program(program, options);
    pjrt::PartitionedProgram partitioned{
        .optimized = partitioned_by_first(client, program, options),
        .device_ids = options.device_ids};
    const uint64_t first = fingerprint(partitioned.optimized.bytes) >> 8;
    Called called;
    do {  // a number that no other client of this process uses
      partitioned.number = static_cast<int64_t>(first) + taken_++;
      called = calls_of(client, partitioned);
    } while (!called.served);
    pjrt::CompileOptions own = options;
    own.device_ids.clear();
    for (const auto& [device, partition] : called.program->partition_of) {
      own.device_ids.push_back(device);
    }
    std::ranges::sort(own.device_ids, {},
                      [&](int64_t device) { return called.program->partition_of.at(device); });
    pjrt::Executable executable = client.compile_partitioned(called.hlo, std::move(own));
    executable.set_multi_process_run(
        std::make_shared<Run>(std::move(partitioned), std::move(called.served), order_));
    return executable;
  }

  std::optional<pjrt::Executable> load(const pjrt::Client& client,
                                       const std::optional<std::string>& serialized) override {
    std::optional<pjrt::SerializedMultiProcess> stored =
        serialized ? pjrt::unpack_multi_process(*serialized) : std::nullopt;
    if (!all(stored.has_value())) {
      return std::nullopt;
    }
    std::optional<pjrt::Executable> out;
    Called called = calls_of(client, stored->program);
    try {
      if (called.served) {
        out = client.load_local(stored->own);
        out->set_multi_process_run(
            std::make_shared<Run>(std::move(stored->program), std::move(called.served), order_));
      }
    } catch (const Error&) {
      out.reset();  // from another build of the plugin
    }
    return all(out.has_value()) ? std::move(out) : std::nullopt;
  }

 private:
  static constexpr int kLastTag = 1 << 30;

  /// A program's collectives and their handlers; null if its number is another client's.
  struct Called {
    std::string hlo;
    std::shared_ptr<const SharedProgram> program;
    std::shared_ptr<const void> served;
  };

  /// True if it is true in all processes.
  bool all(bool own) {
    const std::vector<std::string> said =
        communicator_.gather(own ? "1" : "0", {"loading programs", kLongestCompile});
    return std::ranges::all_of(said, [](const std::string& each) { return each == "1"; });
  }

  Called calls_of(const pjrt::Client& client, const pjrt::PartitionedProgram& partitioned) {
    const auto partitions = std::ssize(partitioned.device_ids);
    pjrt::ProgramWithCalls with_calls =
        pjrt::with_collective_calls(partitioned.optimized, partitions, partitioned.number);
    const auto program = std::make_shared<SharedProgram>();
    program->number = partitioned.number;
    program->calls = std::move(with_calls.calls);
    for (int64_t partition = 0; partition < partitions; ++partition) {
      const int64_t device = partitioned.device_ids[static_cast<size_t>(partition)];
      const int64_t process = client.device(device).description().process_index;
      program->process_of.push_back(process);
      if (process == communicator_.rank()) {
        program->partition_of.emplace(device, partition);
      }
    }
    check(!program->partition_of.empty(),
          "[cluster] a program runs on devices of which process {} has none", communicator_.rank());
    for (const pjrt::CollectiveCall& call : program->calls) {
      program->tags.push_back(next_tag_);
      next_tag_ += static_cast<int>(std::ssize(call.operands) * partitions);
      check(next_tag_ < kLastTag, "[cluster] too many programs in one process");
    }
    register_handlers(client.plugin());
    std::shared_ptr<const void> served = serve(program, exchange_);
    return {std::move(with_calls.hlo), program, std::move(served)};
  }

  void check_same_program(std::string_view program, const pjrt::CompileOptions& options) {
    const std::string own =
        fmt::format("{:016x} {:016x}", fingerprint(program), fingerprint(options.serialize()));
    const std::vector<std::string> all = communicator_.gather(own, {"compiling", kLongestCompile});
    std::vector<int64_t> others;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank] != all.front()) {
        others.push_back(static_cast<int64_t>(rank));
      }
    }
    check(others.empty(), "[cluster] {} would compile another program than process 0 at this point",
          world::ranks_text(others));
  }

  /// Process 0 compiles for all devices and broadcasts the result as text.
  pjrt::OptimizedProgram partitioned_by_first(const pjrt::Client& client, std::string_view program,
                                              const pjrt::CompileOptions& options) {
    std::string said;
    if (communicator_.rank() == 0) {
      try {
        // Only the optimized HLO is needed: its code never runs.
        pjrt::CompileOptions quick = options;
        quick.flags.insert_or_assign("xla_backend_optimization_level", int64_t{0});
        quick.flags.insert_or_assign("xla_llvm_disable_expensive_passes", true);
        quick.flags.insert_or_assign("xla_cpu_use_fusion_emitters", false);
        const pjrt::OptimizedProgram made = client.compile_for_all(program, quick).optimized();
        said = "+" + made.format + "\n" + made.bytes;
      } catch (const Error& error) {
        said = std::string("-") + error.what();
      }
    }
    said = communicator_.broadcast(said, {"compiling", kLongestCompile});
    check(said.starts_with('+'), "{}", said.substr(1));
    const size_t line = said.find('\n');
    return {.format = said.substr(1, line - 1), .bytes = said.substr(line + 1)};
  }

  world::Communicator communicator_;
  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<RunOrder> order_ = std::make_shared<RunOrder>();
  int64_t taken_ = 0;
  int next_tag_ = 0;
};

}  // namespace

double seconds_waited() { return 1e-9 * static_cast<double>(nanoseconds_waited()); }

pjrt::Processes cpu_processes(const std::shared_ptr<world::World>& world) {
  if (!world || world->is_alone()) {
    return {.across = std::make_shared<CpuCluster>()};
  }
  return {.index = world->rank(),
          .count = world->size(),
          .across =
              std::make_shared<CpuCluster>(world->engine(), [world] { return world->failure(); })};
}

}  // namespace kinema::cluster
