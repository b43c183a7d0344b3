#include "kinema/cluster/cpu_cluster.h"

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "kinema/cluster/exchange.h"
#include "kinema/cluster/handlers.h"
#include "kinema/core/error.h"
#include "kinema/core/fingerprint.h"
#include "kinema/core/stopwatch.h"
#include "kinema/pjrt/collective_calls.h"
#include "kinema/world/communicator.h"

namespace kinema::cluster {
namespace {

constexpr double kLongestCompile = 4 * 3600;  // seconds; a process that died is noticed otherwise

/// The runs of all shared programs of a process, one after the other.
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
        // Who reads its results is told.
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

class Run : public pjrt::RunAcross {
 public:
  Run(pjrt::OptimizedProgram partitioned, std::shared_ptr<void> served,
      std::shared_ptr<RunOrder> order)
      : partitioned_(std::move(partitioned)),
        served_(std::move(served)),
        order_(std::move(order)) {}
  ~Run() override { order_->begin(); }  // its calls are served to the end

  const pjrt::OptimizedProgram& partitioned() const override { return partitioned_; }
  void begin() override { order_->begin(); }
  void started(std::vector<pjrt::Event> done) override { order_->started(std::move(done)); }

 private:
  pjrt::OptimizedProgram partitioned_;
  std::shared_ptr<void> served_;
  std::shared_ptr<RunOrder> order_;
};

class CpuCluster : public pjrt::AcrossProcesses {
 public:
  CpuCluster(std::shared_ptr<world::Engine> engine, const std::function<std::string()>& failed)
      : talk_(engine, failed), exchange_(std::make_shared<Exchange>(std::move(engine), failed)) {}

  pjrt::Executable compile(const pjrt::Client& client, std::string_view program,
                           const pjrt::CompileOptions& options) override {
    check_same_program(program, options);
    pjrt::OptimizedProgram optimized = partitioned_by_first(client, program, options);
    const auto shared = std::make_shared<SharedProgram>();
    shared->number = next_number_++;
    pjrt::ProgramWithCalls with_calls =
        pjrt::with_collective_calls(optimized, options.partitions, shared->number);
    shared->calls = std::move(with_calls.calls);
    pjrt::CompileOptions own = options;
    own.device_ids.clear();
    for (size_t partition = 0; partition < options.device_ids.size(); ++partition) {
      const int64_t device = options.device_ids[partition];
      const int64_t process = client.device(device).description().process_index;
      shared->process_of.push_back(process);
      if (process == talk_.rank()) {
        shared->partition_of.emplace(device, static_cast<int64_t>(partition));
        own.device_ids.push_back(device);
      }
    }
    check(!own.device_ids.empty(),
          "[cluster] a program runs on devices of which process {} has none", talk_.rank());
    for (const pjrt::CollectiveCall& call : shared->calls) {
      shared->tags.push_back(next_tag_);
      next_tag_ += static_cast<int>(call.operands.size() * options.device_ids.size());
      check(next_tag_ < kLastTag, "[cluster] too many programs in one process");
    }
    register_handlers(client.plugin());
    std::shared_ptr<void> served = serve(shared, exchange_);
    pjrt::Executable executable = client.compile_partitioned(with_calls.hlo, std::move(own));
    executable.set_across(std::make_shared<Run>(std::move(optimized), std::move(served), order_));
    return executable;
  }

 private:
  static constexpr int kLastTag = 1 << 30;

  void check_same_program(std::string_view program, const pjrt::CompileOptions& options) {
    const std::string own =
        fmt::format("{:016x} {:016x}", fingerprint(program), fingerprint(options.serialize()));
    const std::vector<std::string> all = talk_.gather(own, {"compiling", kLongestCompile});
    std::vector<int64_t> others;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank] != all.front()) {
        others.push_back(static_cast<int64_t>(rank));
      }
    }
    check(others.empty(), "[cluster] {} would compile another program than process 0 at this point",
          world::ranks_text(others));
  }

  /// Process 0 compiles for all devices; the text says what came of it.
  pjrt::OptimizedProgram partitioned_by_first(const pjrt::Client& client, std::string_view program,
                                              const pjrt::CompileOptions& options) {
    std::string said;
    if (talk_.rank() == 0) {
      try {
        const pjrt::OptimizedProgram made = client.compile_for_all(program, options).optimized();
        said = "+" + made.format + "\n" + made.bytes;
      } catch (const Error& error) {
        said = std::string("-") + error.what();
      }
    }
    said = talk_.broadcast(said, {"compiling", kLongestCompile});
    check(said.starts_with('+'), "{}", said.substr(1));
    const size_t line = said.find('\n');
    return {.format = said.substr(1, line - 1), .bytes = said.substr(line + 1)};
  }

  world::Communicator talk_;
  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<RunOrder> order_ = std::make_shared<RunOrder>();
  int64_t next_number_ = 0;
  int next_tag_ = 0;
};

}  // namespace

pjrt::Processes cpu_processes(world::World& world, std::function<std::string()> failed) {
  if (world.is_alone()) {
    return {};
  }
  check(world.engine() != nullptr,
        "[cluster] nothing carries messages between the {} processes ({})\n  mpirun and srun "
        "--mpi=pmix start such as have it",
        world.size(), world.place().how);
  return {.index = world.rank(),
          .count = world.size(),
          .across = std::make_shared<CpuCluster>(world.engine(), failed)};
}

}  // namespace kinema::cluster
