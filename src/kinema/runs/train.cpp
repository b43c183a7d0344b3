#include "kinema/runs/train.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "kinema/checkpoints/run_lock.h"
#include "kinema/config/resume.h"
#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/core/stopwatch.h"
#include "kinema/core/trace.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/pjrt/transfers.h"
#include "kinema/runs/both_experts.h"
#include "kinema/runs/compiler_flags.h"
#include "kinema/runs/continued_run.h"
#include "kinema/runs/data_sets.h"
#include "kinema/runs/device.h"
#include "kinema/runs/generation.h"
#include "kinema/runs/kernel_check.h"
#include "kinema/runs/load.h"
#include "kinema/runs/models.h"
#include "kinema/runs/pictures.h"
#include "kinema/runs/process_times.h"
#include "kinema/runs/run_records.h"
#include "kinema/runs/shared_start.h"
#include "kinema/runs/stores.h"
#include "kinema/runs/tile_search.h"
#include "kinema/runs/training.h"
#include "kinema/runs/watched_videos.h"
#include "kinema/runtime/device_memory.h"
#include "kinema/training/profile_window.h"

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
      .max_steps = config.optimizer.max_train_steps,
      .resumed = training.resumed.empty() ? "" : training.described(training.resumed),
      .first_position = training.first_position,
      .notes = training.notes,
      .batch = training.step.batch_text,
      .accumulation = config.optimizer.gradient_accumulation_steps,
      .expert = training.step.expert,
      .memory = training.memory,
      .schedule = describe(training.schedules, training.two, config.optimizer.max_train_steps),
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

/// Adds up what each part of the loop takes; the first step, which may still set things up, apart.
void measure(training::LoopParts& parts, training::Timings& timings, const Job& job) {
  world::World& world = job.world();
  parts.begin_step = [&world, begin = parts.begin_step](int64_t step) {
    if (begin) {
      begin(step);
    }
    world.begin(step + 1, "waiting for data");
  };
  // What this process takes by itself, beside waiting for others.
  const auto own = std::make_shared<OwnTime>();
  parts.next_batch = [&timings, own, next = parts.next_batch] {
    own->begin();
    return timings.measure("waiting for data", next);
  };
  parts.run_step = [&timings, &world, own, step = parts.run_step, first = true](
                       int64_t i, double rate, const data::Batch& batch) mutable {
    world.begin(i + 1, "in the step");
    const char* phase = std::exchange(first, false) ? "first step" : "steps";
    const training::StepResult result =
        timings.measure(phase, [&] { return step(i, rate, batch); });
    if (world::Pulse* const pulse = world.pulse()) {
      pulse->finished(own->of_step(i + 1));
    }
    return result;
  };
  parts.save = [&timings, &job, save = parts.save](int64_t steps, bool go_on) {
    const auto writing = job.task("writing the checkpoint");
    job.world().begin(steps, "writing a checkpoint", /*is_long=*/true);
    timings.measure("checkpoints", [&] { save(steps, go_on); });
  };
  parts.saved = [&timings, &job, saved = parts.saved](bool wait) {
    if (wait) {
      const auto writing = job.task("writing the checkpoint");
      timings.measure("checkpoints", [&] { saved(true); });
    } else {
      saved(false);
    }
  };
  parts.evaluate = [&timings, &world, evaluate = parts.evaluate](int64_t step) {
    world.begin(step + 1, "evaluating", /*is_long=*/true);
    timings.measure("evaluation", [&] { evaluate(step); });
  };
}

/// Looks now and then whether a run's folder is still there. It may be removed by hand, or by
/// something that tidies up.
class FolderWatch {
 public:
  explicit FolderWatch(const std::optional<checkpoints::RunLock>& lock) : lock_(lock) {}

  bool is_gone() {
    constexpr double kPause = 1;  // seconds; a folder may lie on a slow file system
    if (!gone_ && since_.seconds() >= kPause) {
      gone_ = lock_ && !lock_->is_in_place();
      since_.restart();
    }
    return gone_;
  }
  /// Throws an Error that names the folder when it was found to be gone.
  void check(const fs::path& run, int64_t steps, const fs::path& checkpoints) const {
    kinema::check(
        !gone_,
        "[train] run folder {} was removed while the run went on: stopped after {} steps\n"
        "  the state is saved in {}; what else was in the folder is gone",
        run.string(), steps, checkpoints.string());
  }

 private:
  const std::optional<checkpoints::RunLock>& lock_;  // process 0's
  Stopwatch since_;
  bool gone_ = false;
};

/// Who is told of the steps.
struct Listeners {
  const TrainObserver& observer;
  const Job& job;
  RunRecords& records;
  WatchedVideos& videos;
};

/// Of several processes each has its own, as one host may have several.
fs::path profile_folder(const config::Config& config, const fs::path& run, const Job& job) {
  const fs::path folder =
      config.run.tensorboard_dir.empty() ? run / "profile" : fs::path(config.run.tensorboard_dir);
  return job.world().is_first() ? folder : folder / fmt::format("process-{}", job.world().rank());
}

bool gains_nothing(const training::Gain& gain, const config::Config& config) {
  return config.run.eval_every > 0 && gain.is_over(config.run.stop_after_evaluations_without_gain);
}

training::LoopEnd run_steps(Training& training, const config::Config& config,
                            const Listeners& listeners, const pjrt::Client& client,
                            FolderWatch& folder, std::optional<StepRecord>& last) {
  const TrainObserver& observer = listeners.observer;
  const Job& job = listeners.job;
  RunRecords& records = listeners.records;
  WatchedVideos& videos = listeners.videos;
  training::LoopParts parts = training.parts();
  std::optional<training::ProfileWindow> profile;
  const auto say = [&job](const std::string& line) {
    if (!line.empty()) {
      job.line(line);
    }
  };
  if (config.run.enable_profiler && training.first_step < config.optimizer.max_train_steps) {
    profile.emplace(
        training::ProfileOptions{.skip_first = config.run.skip_first_n_steps_for_profiler,
                                 .steps = config.run.profiler_steps},
        client.plugin(), profile_folder(config, training.run, job), training.first_step,
        config.optimizer.max_train_steps);
    parts.begin_step = [&](int64_t step) { say(profile->before_step(step)); };
  }
  parts.report = [&](const StepRecord& measured) {
    StepRecord record = training.measured(measured);
    if (job.world().is_first()) {
      record.process_seconds = process_seconds(job.world().pulse());
    }
    last = record;
    records.step(record);
    if (observer.on_step) {
      observer.on_step(record);
    }
  };
  parts.evaluate = [&](int64_t step) {
    if (training.evaluator) {
      const auto evaluating = job.task("evaluating");
      const Stopwatch watch;
      const Evaluation evaluation = training.evaluate();
      const double seconds = watch.seconds();
      records.evaluation(step, evaluation);
      training.gain.add(step + 1, evaluation.loss);
      if (observer.on_evaluation) {
        observer.on_evaluation(step, evaluation, seconds);
      }
    }
    videos.after_evaluation(step);
  };
  training.log = say;
  // Of several processes what one alone knows goes through the step.
  training.experts->set_stop_asked([&] { return job.stop_asked() || folder.is_gone(); });
  parts.run_step = [&job, step = parts.run_step](int64_t i, double rate, const data::Batch& batch) {
    const training::StepResult result = step(i, rate, batch);
    if (result.stop) {
      job.agree_to_stop();
    }
    return result;
  };
  const bool shared = !job.world().is_alone();
  parts.stop_requested = [&, shared] {
    return job.stop_requested() || (!shared && folder.is_gone()) ||
           gains_nothing(training.gain, config);
  };
  parts.say = [&job](const std::string& text) { job.notice(text); };
  measure(parts, training.timings, job);
  std::optional<pjrt::TransferGuard> guard;
  if (config.runtime.transfer_guard) {
    guard.emplace("the training steps");
  }
  const training::LoopEnd end = training::train_loop(training.loop_options(config), parts);
  if (profile) {
    if (last) {
      const std::vector<std::vector<double>> steps = {last->process_seconds};
      say(slowest_process(steps));
    }
    say(profile->finish());
  }
  return end;
}

/// Whether a run has no step left to make. One of epochs is asked once its data is open.
bool is_done(const config::Config& config, const Start& start) {
  const int64_t last = config.optimizer.max_train_steps;
  return start.resumes() && last > 0 && start.saved.step >= last;
}

std::string nothing_to_do(int64_t made, int64_t max_steps) {
  return fmt::format("nothing to do: {} made, and max_train_steps is {}",
                     made == 1 ? "1 step is" : fmt::format("{} steps are", made), max_steps);
}

/// Keys of the command line that say otherwise than the run was made. Nothing is derived for a run
/// that is done, so files, whose keys may stand for what is derived, are not compared.
std::vector<std::string> without_effect(const config::Loaded& loaded, const Start& start) {
  config::Record given = config::record_of(loaded.config);
  for (const std::string& key : model_keys()) {
    given.erase(key);  // other_models tells of those, as they were named
  }
  std::erase_if(given, [&](const auto& each) {
    return each.first == "max_train_steps" || !on_command_line(loaded, each.first);
  });
  std::vector<std::string> out;
  for (const std::string& change : config::changes(start.saved.settings, given)) {
    out.push_back("without effect, as no step is left: " + change);
  }
  return out;
}

/// What needs neither data nor model to be known.
void check_before_loading(const config::Loaded& loaded, const fs::path& run_folder,
                          const Job& job) {
  const config::RunConfig& run = loaded.config.run;
  io::check_writable(checkpoints_folder(loaded.config, run_folder));
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

TrainResult stopped_early(TrainResult result, const Start& start, RunStores& stores,
                          const char* where) {
  stores.finish();
  result.steps = start.saved.step;
  result.stopped = true;
  result.stopped_in = where;
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

TrainResult train(config::Loaded loaded, const TrainObserver& observer, JobOptions options) {
  const Job job(observer, std::move(options));
  job.notice(notices(loaded, "train"));
  job.notice(device_notices(loaded.config));
  const std::shared_ptr<void> together = begin_together(loaded.config, job);
  const flags::Effective flags = check_flags(loaded, job);
  take_run_as_model(loaded.config);
  // With models as they were named; who samples its config.yml waits for no other processes.
  config::Loaded given = config::of_run(loaded);
  RunStores stores(loaded.config, job);
  TrainResult result{.run_folder = stores.run()};
  const fs::path run = run_folder(loaded.config);
  trace::name_thread("main");
  std::optional<checkpoints::RunLock> lock;
  if (job.world().is_first()) {
    lock.emplace(run);
    stores.begin(to_yaml(given));
  }
  stores.bring_together();
  const Start start = find_start(loaded.config, run, job);
  if (stores.checkpoints() != nullptr) {
    stores.checkpoints()->keep(keep_of(loaded, start));
  }
  if (is_done(loaded.config, start)) {
    check(start.folder.parent_path() == checkpoints_folder(loaded.config, run),
          "[train] the run of resume_from has made {} already, and max_train_steps is {}\n  a "
          "larger max_train_steps goes on with it",
          counted(start.saved.step, "step"), loaded.config.optimizer.max_train_steps);
    stores.finish();
    job.notice(other_models(given.config, start.folder));
    job.notice(without_effect(loaded, start));
    job.notice(nothing_to_do(start.saved.step, loaded.config.optimizer.max_train_steps));
    result.steps = start.saved.step;
    return result;
  }
  if (start.resumes() && gains_nothing(start.saved.gain, loaded.config)) {
    stores.finish();
    result.steps = start.saved.step;
    result.stopped = true;
    result.stopped_for = training::describe(start.saved.gain);
    job.notice("nothing to do: stop_after_evaluations_without_gain=0 goes on past them");
    return result;
  }
  check_before_loading(loaded, run, job);
  fetch_models(loaded.config, Use::TRAIN, job);
  fetch_data(loaded.config, job);
  const config::Config& config = loaded.config;
  job.begin();
  check_same_start(given.config, flags, job);
  if (stores.checkpoints() == nullptr) {
    check_shared_folder(checkpoints_folder(config, run),
                        config.run.checkpoint_dir.empty() ? "output_dir" : "checkpoint_dir", job);
  }
  job.meet("the start");
  if (job.stop_requested()) {
    return stopped_early(result, start, stores, "before the first step");
  }
  const pjrt::Client client = open_client(config, job);
  check_same_devices(client, job);
  check_kernels(loaded.config, client, job);
  choose_tiles(loaded, PlanMode::TRAIN, client, job);
  Training training = prepare_training(loaded, client, run, start, stores.checkpoints(), job);
  if (!training.prefetcher) {
    return stopped_early(result, start, stores,
                         training.source ? "before the first step" : "while clips were encoded");
  }
  training.checksums = observer.checksums;
  if (training.step.expert.boundary_ratio) {  // of the pipeline, unless it was given
    given.config.generate.boundary_ratio = *training.step.expert.boundary_ratio;
  }
  set_image_keys(given, pictures_of(training.step.network));  // a picture has one frame
  if (job.world().is_first()) {
    io::write_file(run / "config.yml", to_yaml(given));
    const bool one_device = !training.step.options.place.active();
    const flags::Effective used =
        resolve_flags(loaded, {.one_device = one_device, .program = job.program()});
    io::write_file(run / "flags.json", flags::to_json(used).dump());
  }
  if (observer.on_start) {
    TrainStart begun = start_of(training, config, stores.run());
    begun.allowed_flags = allowed_text(flags);
    observer.on_start(begun);
  }
  stores.restored();
  RunRecords records(training, config, job.world().is_first(), [&stores] { stores.hint(); });
  WatchedVideos videos(loaded, training, client, flags::given_json(flags),
                       {.observer = observer, .job = job, .records = records});
  const bool done = training.first_step >= config.optimizer.max_train_steps;
  if (done) {
    job.notice(nothing_to_do(training.first_step, config.optimizer.max_train_steps));
  } else {
    videos.before_training();
  }
  FolderWatch folder(lock);
  const training::LoopEnd end =
      run_steps(training, config, {observer, job, records, videos}, client, folder, result.last);
  folder.check(run, end.steps, training.checkpoints->path());
  if (end.stopped && gains_nothing(training.gain, config)) {
    result.stopped_for = training::describe(training.gain);
  }
  if (!done && (!end.stopped || !result.stopped_for.empty())) {
    videos.after_training(end.steps);
  }
  records.finish();
  // The run is over, and its weights are there: what only describes it is no reason to fail.
  const auto describe = [&](const auto& write) {
    try {
      write();
    } catch (const Error& error) {
      job.notice(error.what());
    }
  };
  describe([&] { records.draw(); });
  if (config.run.write_timing_metrics && job.world().is_first()) {
    const std::string& file = config.run.timing_metrics_file;
    describe(
        [&] { training.timings.write(file.empty() ? run / "timings.jsonl" : fs::path(file)); });
  }
  stores.finish();
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

}  // namespace kinema::runs
