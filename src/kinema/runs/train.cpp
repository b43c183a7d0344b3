#include "kinema/runs/train.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/trace.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/runs/compiler_flags.h"
#include "kinema/runs/continued_run.h"
#include "kinema/runs/data_sets.h"
#include "kinema/runs/device.h"
#include "kinema/runs/generation.h"
#include "kinema/runs/kernel_check.h"
#include "kinema/runs/load.h"
#include "kinema/runs/models.h"
#include "kinema/runs/open_run.h"
#include "kinema/runs/pictures.h"
#include "kinema/runs/run_records.h"
#include "kinema/runs/run_steps.h"
#include "kinema/runs/shared_start.h"
#include "kinema/runs/tile_search.h"
#include "kinema/runs/training.h"
#include "kinema/runs/two_experts.h"
#include "kinema/runs/watched_videos.h"
#include "kinema/runtime/device_memory.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

TrainStart start_of(const Training& training, const config::Config& config,
                    const std::string& run_folder) {
  TrainStart out{
      .run_folder = run_folder,
      .parameters = training.parameters,
      .trained_parameters = training.trained_parameters,
      .adapter = training.step.adapters.empty() ? "" : training.step.adapters.front().text(),
      .pretrained = training.pretrained.front(),
      .first_step = training.first_step,
      .max_steps = training.loop.max_steps,
      .resumed = training.resumed.empty() ? "" : training.described(training.resumed),
      .first_position = training.first_position,
      .notes = training.notes,
      .batch = training.step.batch_text,
      .accumulation = config.optimizer.gradient_accumulation_steps,
      .expert = training.step.expert,
      .memory = training.memory,
      .schedule = describe(training.schedules, training.two, training.loop.max_steps),
      .checkpoints = describe(training.room)};
  if (const mesh::Placement& place = training.step.options.place; place.active()) {
    out.devices = place.mesh().devices();
    out.mesh = mesh::axes_text(place.mesh().axes);
  }
  for (size_t i = 0; i < training.batches.size(); ++i) {
    out.steps.push_back({training.batches[i], training.experts->trainer().report(i)});
  }
  if (config.parallel.debug_sharding) {
    out.sharding = training.experts->trainer().sharding_report();
  }
  return out;
}

/// Of several processes each has its own, as one host may have several.
fs::path profile_folder(const config::Config& config, const fs::path& run, const Job& job) {
  const fs::path folder =
      config.run.tensorboard_dir.empty() ? run / "profile" : fs::path(config.run.tensorboard_dir);
  return job.world().is_first() ? folder : folder / fmt::format("process-{}", job.world().rank());
}

LoopSettings loop_settings(const config::Config& config, const fs::path& run, const Job& job) {
  LoopSettings out{.profile_folder = profile_folder(config, run, job),
                   .transfer_guard = config.runtime.transfer_guard};
  if (config.run.enable_profiler) {
    out.profile = {.skip_first = config.run.skip_first_n_steps_for_profiler,
                   .steps = config.run.profiler_steps};
  }
  if (config.run.eval_every > 0) {
    out.evaluations_without_gain = config.run.stop_after_evaluations_without_gain;
  }
  return out;
}

/// What needs neither data nor model to be known.
void check_before_loading(const config::Loaded& loaded, const fs::path& run_folder,
                          const Job& job) {
  const config::RunConfig& run = loaded.config.run;
  io::check_writable(checkpoints_folder(loaded.config, run_folder));
  io::check_replaceable(run_folder / "config.yml", config::kYamlHeader,
                        "a config.yml that kinema train wrote");
  io::check_replaceable(run_folder / "flags.json", "{", "a flags.json that kinema train wrote");
  for (const std::string& file : {run.metrics_file, run.timing_metrics_file}) {
    std::error_code ignored;
    check(file.empty() || !fs::is_directory(file, ignored),
          "[train] {} is a folder, a file was expected", file);
    if (!file.empty()) {
      io::check_writable(fs::path(file).parent_path());
      io::make_folder(fs::path(file).parent_path());
    }
  }
  if (run.write_metrics) {
    metrics::check_holds_rows(
        run.metrics_file.empty() ? run_folder / "metrics.jsonl" : fs::path(run.metrics_file),
        R"({"step")", "metrics");
  }
  if (!run.timing_metrics_file.empty()) {
    metrics::check_holds_rows(run.timing_metrics_file, R"({"phase")", "timings");
  }
  io::make_folder(run.tensorboard_dir);
  if (makes_videos(run)) {
    job.notice(prompt_notices(loaded));  // reads them
  }
  if (run.checkpoint_every < 1 && !run.save_final_checkpoint) {
    job.notice(
        "THIS RUN WILL END WITHOUT WEIGHTS: checkpoint_every is -1 and save_final_checkpoint is "
        "false; save_final_checkpoint=true saves them");
  }
}

/// The end of a job that made no step: stores are flushed.
TrainResult ended_before_steps(OpenRun& run, TrainResult result) {
  run.stores().finish();
  result.run_folder = run.stores().run();
  result.steps = run.start().saved.step;
  return result;
}

TrainResult stopped_early(OpenRun& run, const char* where) {
  return ended_before_steps(run, {.stopped = true, .stopped_in = where});
}

/// The boundary of the pipeline's experts as the run was trained with it.
config::Loaded with_boundary(config::Loaded record, const Expert& expert) {
  if (expert.boundary_ratio) {
    record.config.generate.boundary_ratio = *expert.boundary_ratio;
  }
  return record;
}

/// The run's config.yml and flags.json, as its first step needs them.
void write_records(const config::Loaded& record, const config::Loaded& used,
                   const Training& training, const Job& job) {
  io::write_file(training.run / "config.yml", to_yaml(record));
  const bool one_device = !training.step.options.place.active();
  const flags::Effective flags =
      resolve_flags(used, {.one_device = one_device, .program = job.program()});
  io::write_file(training.run / "flags.json", flags::to_json(flags).dump());
}

/// Writes what only describes a run, whose weights are saved: a failure is told and ends nothing.
void write_descriptions(const RunRecords& records, const training::Timings& timings,
                        const fs::path& timings_file, const Job& job) {
  const auto attempt = [&](const auto& write) {
    try {
      write();
    } catch (const Error& error) {
      job.notice(error.what());
    }
  };
  attempt([&] { records.draw(); });
  if (!timings_file.empty()) {
    attempt([&] { timings.write(timings_file); });
  }
}

/// Makes the steps of a run that is ready, with the files and videos that go with them.
TrainResult run_training(Training& training, const config::Loaded& ready, OpenRun& run,
                         const flags::Effective& flags, const pjrt::Client& client,
                         const TrainObserver& observer, const Job& job) {
  const config::Config& config = ready.config;
  const LoopSettings settings = loop_settings(config, training.run, job);
  TrainResult result{.run_folder = run.stores().run()};
  RunRecords records(training, config, job.world().is_first(), [&run] { run.stores().hint(); });
  WatchedVideos videos(ready, training, client, flags::given_json(flags),
                       {.observer = observer, .job = job, .records = records});
  const int64_t max_steps = training.loop.max_steps;
  const bool done = training.first_step >= max_steps;
  if (done) {
    job.notice(nothing_to_do(training.first_step, max_steps));
  } else {
    videos.before_training();
  }
  FolderWatch folder(run.lock());
  const training::LoopEnd end =
      run_steps(training, settings, {observer, job, records, videos}, client, folder, result.last);
  folder.check(training.run, end.steps, training.checkpoints->path());
  if (end.stopped && settings.is_over(training.gain)) {
    result.stopped_for = training::describe(training.gain);
  }
  if (!done && (!end.stopped || !result.stopped_for.empty())) {
    videos.after_training(end.steps);
  }
  records.finish();
  const std::string& timings = config.run.timing_metrics_file;
  const bool writes_timings = config.run.write_timing_metrics && job.world().is_first();
  write_descriptions(records, training.timings,
                     !writes_timings   ? fs::path()
                     : timings.empty() ? training.run / "timings.jsonl"
                                       : fs::path(timings),
                     job);
  run.stores().finish();
  result.steps = end.steps;
  result.skipped = end.skipped;
  result.stopped = end.stopped;
  result.notes = training.notes;
  result.predicted_bytes = training.memory.predicted();
  result.peak_bytes = runtime::peak_bytes({client, training.step.options.place});
  result.timings = training.timings.phases();
  result.finished = metrics::time_now();
  return result;
}

}  // namespace

io::Json TrainResult::json() const {
  io::Json out = io::Json::object();
  out.set("run_folder", run_folder)
      .set("steps", steps)
      .set("skipped", skipped)
      .set("stopped", stopped);
  if (!stopped_for.empty()) {
    out.set("stopped_for", stopped_for);
  }
  if (predicted_bytes > 0) {
    out.set("notes", io::Json::array({notes.begin(), notes.end()}))
        .set("memory",
             io::Json::object({{"predicted_bytes", predicted_bytes}, {"peak_bytes", peak_bytes}}));
  }
  if (last) {
    out.set("time", finished).set("learning/loss", last->loss);
    if (last->epoch) {
      out.set("learning/epoch", *last->epoch);
    }
    for (const auto& [name, bytes] : training::memory_figures(*last)) {
      out.set(name, bytes);
    }
  }
  return out;
}

TrainResult train(const config::Loaded& given, const TrainObserver& observer, JobOptions options) {
  const Job job(observer, std::move(options));
  job.notice(notices(given, "train"));
  job.notice(device_notices(given.config));
  const std::shared_ptr<void> together = start_heartbeat(given.config, job);
  const flags::Effective flags = check_flags(given, job);
  trace::name_thread("main");
  OpenRun run(with_run_as_model(given), job);
  if (const auto lines = run.nothing_left()) {
    const TrainResult result = ended_before_steps(run, {});
    job.notice(*lines);
    return result;
  }
  const config::Loaded& loaded = run.loaded();
  const Start& start = run.start();
  if (start.resumes() &&
      loop_settings(loaded.config, run.folder(), job).is_over(start.saved.gain)) {
    const TrainResult result = ended_before_steps(
        run, {.stopped = true, .stopped_for = training::describe(start.saved.gain)});
    job.notice("nothing to do: stop_after_evaluations_without_gain=0 goes on past them");
    return result;
  }
  check_before_loading(loaded, run.folder(), job);
  const config::Loaded local = with_local_data(with_local_models(loaded, Use::TRAIN, job), job);
  job.begin();
  check_same_start(run.record().config, flags, job);
  if (run.stores().checkpoints() == nullptr) {
    check_shared_folder(checkpoints_folder(local.config, run.folder()),
                        local.config.run.checkpoint_dir.empty() ? "output_dir" : "checkpoint_dir",
                        job);
  }
  job.sync_stop("the start");
  if (job.stop_requested()) {
    return stopped_early(run, "before the first step");
  }
  const pjrt::Client client = open_client(local.config, job);
  check_same_devices(client, job);
  const config::Loaded tuned =
      with_fastest_tiles(with_checked_kernels(local, client, job), PlanMode::TRAIN, client, job);
  Training training =
      prepare_training(tuned, client, run.folder(), start, run.stores().checkpoints(), job);
  if (!training.prefetcher) {
    return stopped_early(run,
                         training.source ? "before the first step" : "while clips were encoded");
  }
  training.checksums = observer.checksums;
  const Pictures pictures = pictures_of(training.step.network);
  const config::Loaded ready = with_image_keys(tuned, pictures);
  if (job.world().is_first()) {
    write_records(with_image_keys(with_boundary(run.record(), training.step.expert), pictures),
                  ready, training, job);
  }
  if (observer.on_start) {
    TrainStart begun = start_of(training, ready.config, run.stores().run());
    begun.allowed_flags = allowed_text(flags);
    observer.on_start(begun);
  }
  run.stores().restored();
  return run_training(training, ready, run, flags, client, observer, job);
}

}  // namespace kinema::runs
