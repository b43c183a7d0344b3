#include "kinema/plans/tile_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/kernels/block_sizes.h"
#include "kinema/nn/flash_attention.h"
#include "kinema/planning/tile_search.h"
#include "kinema/plans/kernel_check.h"
#include "kinema/plans/planned_step.h"
#include "kinema/resolve/device.h"
#include "kinema/runtime/program.h"

namespace kinema::plans {
namespace {

namespace fs = std::filesystem;
using kernels::AttentionCall;
using kernels::FlashPass;

constexpr const char* kTileTable = "tiles.json";

/// The attention calls of the run's step. Their shapes depend only on the kind of the devices.
std::vector<AttentionCall> calls_of(const resolve::Settings& loaded, PlanMode mode,
                                    const pjrt::Client& client, const Job& job) {
  const auto devices = static_cast<int64_t>(client.devices().size());
  planning::Target target = planning::parse_target(fmt::format("cpu:{}", devices));
  return kernels::calls_of(build_planned_step(loaded, target, mode, job).emitted().attention);
}

/// A program with only this call, forward or backward, with these block sizes.
runtime::Program program_of(const AttentionCall& call, const kernels::FlashBlockSizes& sizes,
                            const pjrt::Client& client, const runtime::ProgramOptions& options) {
  nn::FlashOptions flash{.scale = 1.0 / std::sqrt(static_cast<double>(call.width()))};
  flash.blocks = sizes;
  Graph graph;
  const Tensor q = graph.input(call.q);
  const Tensor k = graph.input(call.k);
  const Tensor v = graph.input(call.k);
  if (!call.backward) {
    const nn::FlashResult y = nn::flash_forward(q, k, v, {}, call.result, flash);
    return runtime::Program::compile(client, graph, std::vector<Tensor>{y.y, y.lse}, options);
  }
  const Shape row{DType::F32, {call.q.dims[0], call.q.dims[2], call.q.dims[1]}};
  const Tensor lse = graph.input(row);
  const Tensor delta = graph.input(row);
  const Tensor dy = graph.input(call.q);
  const Tensor y = graph.input(call.q);
  const nn::FlashGradients grads =
      nn::flash_backward(q, k, v, lse, delta, dy, y, {}, call.result, flash);
  return runtime::Program::compile(client, graph, std::vector<Tensor>{grads.dq, grads.dk, grads.dv},
                                   options);
}

/// The minimum of `runs` runs, in seconds.
double time_of(const runtime::Program& program, const pjrt::Client& client, int64_t runs,
               const Job& job) {
  std::vector<pjrt::Buffer> arguments;
  for (const runtime::Port& input : program.inputs()) {
    arguments.push_back(client.to_device(HostArray(input.shape)));
  }
  const auto once = [&] {
    const Stopwatch watch;
    for (const pjrt::Buffer& result : program.run(arguments)) {
      result.await();
    }
    return watch.seconds();
  };
  once();  // the first run is slower
  double least = std::numeric_limits<double>::max();
  for (int64_t i = 0; i < runs; ++i) {
    job.check_stop();
    least = std::min(least, once());
  }
  return least;
}

}  // namespace

void check_tile_table(const fs::path& folder) {
  if (!folder.empty()) {
    io::check_replaceable(folder / kTileTable, "{", "a table of tiles");
  }
}

void write_tile_table(const fs::path& folder, const std::vector<planning::TileTable>& tables) {
  if (!folder.empty()) {
    io::make_folder(folder);
    io::write_file(folder / kTileTable, planning::to_json(tables).dump() + "\n");
  }
}

resolve::Settings with_fastest_tiles(const resolve::Settings& settings, PlanMode mode,
                                     const pjrt::Client& client, const Job& job) {
  const resolve::TileSearch search = resolve::tile_search(settings);
  if (!search.on) {
    return settings;
  }
  if (client.platform_name() != "tpu" && client.platform_name() != "cpu") {
    job.notice("enable_tile_search: this device's attention kernels choose their tiles themselves");
    return settings;
  }
  check_tile_table(search.folder);
  const std::vector<AttentionCall> calls = calls_of(settings, mode, client, job);
  if (calls.empty()) {
    job.notice(fmt::format("enable_tile_search: attention: {} has no blocks on this device",
                           search.attention));
    return settings;
  }
  runtime::ProgramOptions options =
      with_required_kernels(resolve::program_options(settings), client, job);
  options.dump.clear();
  const auto task = job.task("timing block sizes");
  int64_t done = 0;
  const auto tables = planning::search_tiles(
      calls, client.devices().front().description().kind, search.full,
      [&](const AttentionCall& call, kernels::TileCandidate trial) {
        job.check_stop();
        planning::TileTiming tried{.trial = std::move(trial)};
        try {
          const runtime::Program program = program_of(call, tried.trial.sizes, client, options);
          tried.compile_seconds = program.report().compile_seconds;
          tried.seconds = time_of(program, client, search.runs, job);
        } catch (const Stopped&) {
          throw;
        } catch (const Error& error) {
          const std::string said = error.what();
          tried.refused = said.substr(0, said.find('\n'));
        }
        task->update(++done);
        return tried;
      });
  // Times differ between processes, but programs must be equal.
  const std::string best =
      job.world().communicator().broadcast(kernels::to_string(planning::best_sizes(tables)),
                                           {.what = "block sizes", .seconds = 24 * 3600});
  write_tile_table(search.folder, tables);
  job.line(fmt::format("flash_block_sizes: {}, the fastest of {}", best, done));
  return settings.with("flash_block_sizes", best);
}

}  // namespace kinema::plans
