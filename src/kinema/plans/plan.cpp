#include "kinema/plans/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/graph/scan.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/kernels/block_sizes.h"
#include "kinema/model_source/network.h"
#include "kinema/planning/compiler_error.h"
#include "kinema/planning/flops.h"
#include "kinema/planning/tile_search.h"
#include "kinema/plans/planned_step.h"
#include "kinema/plans/program_path.h"
#include "kinema/plans/smaller_plans.h"
#include "kinema/plans/tile_search.h"
#include "kinema/resolve/attention_notices.h"
#include "kinema/resolve/compiler_flags.h"
#include "kinema/resolve/device.h"
#include "kinema/resolve/variations.h"
#include "kinema/runtime/client.h"
#include "kinema/runtime/environment.h"

namespace kinema::plans {
namespace {

namespace fs = std::filesystem;

std::string plugin_for(const resolve::Settings& settings, const planning::Target& target) {
  runtime::ClientSpec spec = resolve::client_spec(settings);
  spec.hardware = target.platform();
  return runtime::find_plugin(spec);
}

/// The step's text with all options of its compiler.
planning::CompileJob job_of(const resolve::Settings& settings, const PlanOptions& options,
                            const PlannedStep& step, runtime::Emitted emitted,
                            std::map<std::string, pjrt::FlagValue> flags) {
  planning::CompileJob out{.target = options.target,
                           .plugin = plugin_for(settings, options.target),
                           .program = std::move(emitted.text),
                           .kernels = !emitted.kernels.handlers.empty(),
                           .save_executable = options.save_executable.string()};
  if (const std::string& folder = step.program.dump; !folder.empty()) {
    std::error_code ignored;
    fs::create_directories(folder, ignored);
    io::write_file(fs::path(folder) / "plan.mlir", out.program);
    kernels::write_kernel_texts(folder, emitted.kernel_texts);
    out.dump = (fs::absolute(folder) / "plan.hlo.txt").string();
  }
  out.memory_limit = options.compile_memory;
  out.options.flags = std::move(flags);
  resolve::set_effort(settings, options.target.chip.family == planning::Family::TPU, out.options);
  out.options = emitted.kernels.with_flags(std::move(out.options));
  if (step.place.active()) {
    out.options.partitions = step.place.mesh().devices();
    out.options.device_ids = step.place.mesh().device_ids;
  }
  return out;
}

/// Autotunes tiles if `options.tiles` is set; else returns no tables.
std::vector<planning::TileTable> compare_tiles(const resolve::Settings& settings,
                                               const PlanOptions& options, const Job& job) {
  const resolve::TileSearch search = resolve::tile_search(settings);
  const bool tpu = options.target.chip.family == planning::Family::TPU;
  if (!options.tiles && !(search.on && tpu)) {
    return {};
  }
  check_tile_table(search.folder);
  const kernels::AttentionRecord attention =
      build_planned_step(settings, options.target, options.mode, job).emitted().attention;
  check(!attention.empty(),
        "[plan] --tiles: this program has no blockwise attention (attention: {})",
        search.attention);
  const auto task = job.task("comparing tiles");
  int64_t tried = 0;
  std::vector<planning::TileTable> tables = planning::search_tiles(
      kernels::calls_of(attention),
      {.target = options.target,
       .plugin = plugin_for(settings, options.target),
       .program = job.program(),
       .stop = job.stop()},
      search.full, [&](const planning::TileTiming&) { task->update(++tried); });
  write_tile_table(search.folder, tables);
  return tables;
}

/// Throws planning::OutOfMemory if the program cannot fit, independent of the compiler.
void check_may_fit(const planning::Target& target, const PlannedStep& step) {
  const bool is_host = target.chip.family == planning::Family::CPU;
  const int64_t available = is_host ? runtime::available_memory_bytes() / target.devices
                                    : static_cast<int64_t>(target.chip.memory_bytes);
  const planning::MinimumMemory least = minimum_memory(step);
  const auto text = [](int64_t bytes) { return planning::bytes_text(static_cast<double>(bytes)); };
  if (const int64_t wanted = least.bytes() + step.idle.device; wanted > available) {
    throw planning::OutOfMemory(
        fmt::format("[plan] {} does not fit: at least {} of {}, {} of it arguments", target.name,
                    text(wanted), text(available), text(least.arguments)),
        static_cast<double>(least.stacks), static_cast<double>(available));
  }
}

/// A step with its report before it is compiled.
struct Prepared {
  PlannedStep step;
  planning::CompileJob compile;
  planning::Report report;
};

Prepared prepared(const resolve::Settings& given, const PlanOptions& options, const Job& job) {
  job.check_stop();
  std::map<std::string, pjrt::FlagValue> flags =
      resolve::program_flags(resolve::check_flags(given, job,
                                                  {.target = options.target.name,
                                                   .one_device = options.target.devices == 1,
                                                   .words = options.flags}));
  const bool tpu = options.target.chip.family == planning::Family::TPU;
  job.notice(resolve::attention_notices(given, tpu ? options.target.chip.kind : ""));
  Prepared out;
  planning::Report& report = out.report;
  report.tiles = compare_tiles(given, options, job);
  const resolve::Settings settings =
      report.tiles.empty()
          ? given
          : given.with("flash_block_sizes", kernels::to_string(planning::best_sizes(report.tiles)));
  const Stopwatch watch;
  out.step = build_planned_step(settings, options.target, options.mode, job);
  const PlannedStep& step = out.step;
  runtime::Emitted emitted = step.emitted();
  report.attention = std::move(emitted.attention);
  out.compile = job_of(settings, options, step, std::move(emitted), std::move(flags));
  report.target = options.target;
  report.what = step.what;
  report.model = step.model;
  report.inputs = step.inputs;
  report.layout = step.layout;
  report.offloaded_bytes = step.idle.device;
  report.offloaded_host_bytes = step.idle.host;
  if (step.place.active()) {
    report.mesh = step.place.mesh().axes.axes;
  }
  report.remat = step.remat;
  report.options = out.compile.options;
  report.flops = planning::matrix_flops(*step.graph, step.outputs);
  report.model_flops = step.model_flops;
  report.text_bytes = static_cast<int64_t>(out.compile.program.size());
  report.build_seconds = watch.seconds();
  return out;
}

/// Throws planning::OutOfMemory if the program does not fit, by the compiler's result or by the
/// lower bound.
void compile(const PlanOptions& options, const Job& job, Prepared& prepared) {
  check_may_fit(options.target, prepared.step);
  const auto compiling = job.task(fmt::format("compiling for {}", options.target.name));
  prepared.report.compiled =
      planning::compile_in_child(prepared.compile, job.program(), job.stop());
  prepared.report.saved = options.save_executable.string();
  prepared.report.peak_rss = runtime::peak_rss_bytes();
}

planning::Report planned(const resolve::Settings& settings, const PlanOptions& options,
                         const Job& job) {
  Prepared out = prepared(settings, options, job);
  compile(options, job, out);
  return out.report;
}

/// The same, but a step that does not fit is part of the report.
planning::Report planned_or_refused(Prepared& out, const PlanOptions& options, const Job& job) {
  try {
    compile(options, job, out);
  } catch (const planning::OutOfMemory& error) {
    const planning::MinimumMemory least = minimum_memory(out.step);
    out.report.refused = error.what();
    out.report.compiled.memory.arguments = least.arguments;
    out.report.compiled.memory.temporary =
        std::max(least.stacks, static_cast<int64_t>(error.wanted()));
    out.report.compiled.memory_limit = static_cast<int64_t>(error.available());
  }
  return out.report;
}

/// The settings that a sweep tries: the requested ones, else the configuration's and their
/// neighbours.
planning::SweepSpace sweep_space(const resolve::Settings& settings, const PlanOptions& options,
                                 const SweepChoices& choices) {
  const networks::Network network = model_source::planned_network(settings);
  planning::SweepSpace space{.devices = options.target.devices,
                             .remat = choices.remat,
                             .batches = choices.batches,
                             .heads = network.sizes().num_heads,
                             .width = network.sizes().width};
  for (const std::string& mesh : choices.meshes) {
    space.meshes.push_back(planning::parse_mesh(mesh));
  }
  if (space.remat.empty()) {
    space.remat =
        options.mode == PlanMode::TRAIN
            ? std::vector<std::string>{"FULL", "HIDDEN_STATE_WITH_OFFLOAD", "MATMUL_WITHOUT_BATCH"}
            : std::vector<std::string>{"NONE"};
  }
  if (space.batches.empty()) {
    space.batches = {resolve::samples_per_step(settings, options.target.devices,
                                               options.mode == PlanMode::TRAIN)};
  }
  return space;
}

}  // namespace

planning::Report plan(const resolve::Settings& settings, const PlanOptions& options,
                      const Observer& observer) {
  Job(observer, options.job).check_stop();
  check(!options.target.name.empty(),
        "[plan] no target: give PlanOptions::target, e.g. planning::parse_target(\"v5p:2x2x1\")");
  const Job job(observer, with_program(options.job));
  Prepared made = prepared(settings, options, job);
  planning::Report report = planned_or_refused(made, options, job);
  if (report.fits()) {
    return report;
  }
  constexpr size_t kShown = 3;
  report.largest = planning::largest_values(*made.step.graph, made.step.outputs, kShown);
  PlanOptions again = options;
  again.save_executable.clear();
  std::function<planning::Report(const resolve::Settings&)> plan_again;
  if (options.remedies) {
    plan_again = [&](const resolve::Settings& other) {
      Prepared smaller = prepared(other, again, job);
      return planned_or_refused(smaller, again, job);
    };
  }
  find_smaller_plan(settings, again, made.step, job, plan_again, report);
  return report;
}

std::vector<planning::Outcome> sweep(
    const resolve::Settings& settings, const PlanOptions& options, const SweepChoices& choices,
    const Observer& observer,
    const std::function<void(const planning::Outcome&, int64_t done, int64_t total)>& done) {
  for (const int64_t batch : choices.batches) {
    check(batch >= 1, "[plan] --batch is {}, expected 1 or more", batch);
  }
  for (const std::string& policy : choices.remat) {
    remat_policy(policy);
  }
  check(options.save_executable.empty(),
        "[plan] --sweep saves no programs: give one of its meshes");
  const Job job(observer, with_program(options.job));
  const std::vector<planning::Candidate> all =
      planning::candidates(sweep_space(settings, options, choices));
  check(!all.empty(), "[plan] no mesh of {} devices divides batch, heads and width",
        options.target.devices);
  const auto total = static_cast<int64_t>(all.size());
  const auto task = job.task("trying", total);
  task->update(0);
  int64_t tried = 0;
  std::vector<planning::Outcome> outcomes = planning::sweep(
      all,
      [&](const planning::Candidate& candidate) {
        return planned(
            resolve::with_candidate(settings, candidate, options.mode == PlanMode::TRAIN), options,
            job);
      },
      [&](const planning::Outcome& outcome) {
        ++tried;
        if (done) {
          done(outcome, tried, total);
        }
        task->update(tried);
      });
  planning::rank(outcomes);
  return outcomes;
}

}  // namespace kinema::plans
