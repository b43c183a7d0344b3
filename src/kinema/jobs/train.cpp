#include "kinema/jobs/train.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/trace.h"
#include "kinema/flags/effective.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/jobs/run_records.h"
#include "kinema/jobs/run_steps.h"
#include "kinema/jobs/same_inputs.h"
#include "kinema/jobs/training.h"
#include "kinema/jobs/watched_videos.h"
#include "kinema/model_source/continued_run.h"
#include "kinema/model_source/models.h"
#include "kinema/model_source/pictures.h"
#include "kinema/plans/kernel_check.h"
#include "kinema/plans/tile_search.h"
#include "kinema/resolve/compiler_flags.h"
#include "kinema/resolve/dataset.h"
#include "kinema/resolve/device.h"
#include "kinema/resolve/generation.h"
#include "kinema/resolve/load.h"
#include "kinema/resolve/missing_features.h"
#include "kinema/resolve/open_run.h"
#include "kinema/resolve/shared_start.h"
#include "kinema/resolve/two_experts.h"
#include "kinema/runtime/device_memory.h"

namespace kinema::jobs {
namespace {

namespace fs = std::filesystem;

TrainStart start_of(const Training& training, const std::string& run_folder) {
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
      .accumulation = training.settings.accumulation,
      .expert = training.step.expert,
      .memory = training.memory,
      .schedule = resolve::describe(training.schedules, training.two, training.loop.max_steps),
      .checkpoints = checkpoints::describe(training.space)};
  if (const mesh::Placement& place = training.step.options.place; place.active()) {
    out.devices = place.mesh().devices();
    out.mesh = mesh::axes_text(place.mesh().axes);
  }
  for (size_t i = 0; i < training.batches.size(); ++i) {
    out.steps.push_back({training.batches[i], training.experts->trainer().report(i)});
  }
  if (training.settings.debug_sharding) {
    out.sharding = training.experts->trainer().sharding_report();
  }
  return out;
}

/// The end of a job without steps: stores are flushed.
TrainResult ended_before_steps(resolve::OpenRun& run, TrainResult result) {
  run.stores().finish();
  result.run_folder = run.stores().run();
  result.steps = run.start().saved.step;
  return result;
}

TrainResult stopped_early(resolve::OpenRun& run, const char* where) {
  return ended_before_steps(run, {.stopped = true, .stopped_in = where});
}

/// Writes files that only describe a run, whose weights are saved: a failure is logged and does not
/// stop it.
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

/// Runs the steps of a prepared run, with its files and videos.
TrainResult run_training(Training& training, const resolve::Settings& ready, resolve::OpenRun& run,
                         const flags::Effective& flags, const pjrt::Client& client,
                         const TrainObserver& observer, const Job& job) {
  const resolve::LoopSettings settings = resolve::loop_settings(ready, training.run, job);
  const resolve::RecordSettings files = resolve::record_settings(ready, training.run);
  TrainResult result{.run_folder = run.stores().run()};
  RunRecords records(training, files, job.world().is_first(), [&run] { run.stores().hint(); });
  WatchedVideos videos(ready, training, client, flags::given_json(flags),
                       {.observer = observer, .job = job, .records = records});
  const int64_t max_steps = training.loop.max_steps;
  const bool done = training.first_step >= max_steps;
  if (done) {
    job.notice(resolve::nothing_to_do(training.first_step, max_steps));
  } else {
    videos.before_training();
  }
  FolderWatch folder(run.lock());
  const training::LoopEnd end =
      run_steps(training, settings, {observer, job, records, videos}, client, folder, result.last);
  folder.check(training.run, end.steps, training.checkpoints->path());
  if (end.stopped && settings.is_over(training.early_stopping)) {
    result.stopped_for = training::describe(training.early_stopping);
  }
  if (!done && (!end.stopped || !result.stopped_for.empty())) {
    videos.after_training(end.steps);
  }
  records.finish();
  write_descriptions(records, training.timings, job.world().is_first() ? files.timings : fs::path(),
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

TrainResult train(const resolve::Settings& given, const TrainObserver& observer,
                  JobOptions options) {
  const Job job(observer, std::move(options));
  job.notice(resolve::notices(given, "train"));
  job.notice(resolve::device_notices(given));
  const std::shared_ptr<void> together = resolve::start_heartbeat(given, job);
  const flags::Effective flags = resolve::check_flags(given, job);
  trace::name_thread("main");
  resolve::OpenRun run(model_source::with_run_as_model(given), job);
  if (const auto lines = run.nothing_left()) {
    const TrainResult result = ended_before_steps(run, {});
    job.notice(*lines);
    return result;
  }
  const resolve::Settings& named = run.settings();
  const resolve::Start& start = run.start();
  if (start.resumes() &&
      resolve::loop_settings(named, run.folder(), job).is_over(start.saved.early_stopping)) {
    const TrainResult result = ended_before_steps(
        run, {.stopped = true, .stopped_for = training::describe(start.saved.early_stopping)});
    job.notice("nothing to do: stop_after_evaluations_without_gain=0 continues");
    return result;
  }
  resolve::check_before_loading(named, run.folder(), job);
  const resolve::Settings local = resolve::with_local_data(
      model_source::with_local_models(named, model_source::Use::TRAIN, job), job);
  job.begin();
  resolve::check_same_start(run.record(), flags, job);
  if (run.stores().checkpoints() == nullptr) {
    check_shared_folder(run.checkpoints(), run.checkpoints_key(), job);
  }
  job.barrier("the start");
  if (job.stop_requested()) {
    return stopped_early(run, "before the first step");
  }
  const pjrt::Client client = resolve::open_client(local, job);
  check_same_devices(client, job);
  const resolve::Settings tuned = plans::with_fastest_tiles(
      plans::with_checked_kernels(local, client, job), plans::PlanMode::TRAIN, client, job);
  Training training =
      prepare_training(tuned, client, run.folder(), start, run.stores().checkpoints(), job);
  if (!training.prefetcher) {
    return stopped_early(run,
                         training.source ? "before the first step" : "while clips were encoded");
  }
  training.checksums = observer.checksums;
  const model_source::Pictures pictures = model_source::picture_settings(training.step.network);
  const resolve::Settings ready = model_source::with_image_keys(tuned, pictures);
  if (job.world().is_first()) {
    resolve::write_run_files(model_source::with_image_keys(run.record(), pictures), ready,
                             training.step.expert, training.run,
                             /*one_device=*/!training.step.options.place.active(), job);
  }
  if (observer.on_start) {
    TrainStart begun = start_of(training, run.stores().run());
    begun.allowed_flags = resolve::allowed_text(flags);
    job.tell(observer.on_start, begun);
  }
  run.stores().restored();
  return run_training(training, ready, run, flags, client, observer, job);
}

}  // namespace kinema::jobs
