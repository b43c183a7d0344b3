#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "kinema/cli/command.h"
#include "kinema/cli/commands.h"
#include "kinema/cli/compiler_flags.h"
#include "kinema/cli/console.h"
#include "kinema/cli/continued_run.h"
#include "kinema/cli/data_sets.h"
#include "kinema/cli/device.h"
#include "kinema/cli/generation.h"
#include "kinema/cli/models.h"
#include "kinema/cli/quantities.h"
#include "kinema/cli/run_records.h"
#include "kinema/cli/stopping.h"
#include "kinema/cli/stores.h"
#include "kinema/cli/training.h"
#include "kinema/cli/waiting.h"
#include "kinema/cli/watched_videos.h"
#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/core/trace.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/io/json.h"
#include "kinema/pjrt/transfers.h"
#include "kinema/runtime/device_memory.h"
#include "kinema/training/profile_window.h"
#include "kinema/training/run_lock.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

/// `, NAME SHAPE`, of what not every batch has.
std::string also(const char* name, const std::optional<Shape>& shape) {
  return shape ? fmt::format(", {} {}", name, to_string(*shape)) : "";
}

double gb(int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

/// What stands before the first step.
void announce(const Training& training, const config::Config& config, const std::string& run) {
  fmt::print("run folder: {}\n", run);
  fmt::print("model: {} parameters, {}\n", count_text(training.parameters),
             training.first_step > 0 ? fmt::format("resumed after step {}", training.first_step)
             : training.pretrained.empty() ? "from scratch"
                                           : "from " + training.pretrained.string());
  if (const mesh::Placement& place = training.options.place; place.active()) {
    fmt::print("devices: {}, {}\n", place.mesh().devices(), mesh::axes_text(place.mesh().axes));
  }
  if (!training.resumed.empty()) {
    fmt::print("checkpoint read: {}; next sample {}\n", training.described(training.resumed),
               training.first_position);
  }
  for (const std::string& line : training.notes) {
    fmt::print("{}\n", line);
  }
  const int64_t batches = config.optimizer.gradient_accumulation_steps;
  fmt::print("global batch: {}{}\n", training.batch_text,
             batches == 1 ? "" : fmt::format("; {} batches make a step", batches));
  for (size_t i = 0; i < training.batches.size(); ++i) {
    const training::BatchShapes& batch = training.batches[i];
    fmt::print("batch: {} samples of {} with text {}{}{}\n", batch.latents.dims[0],
               to_string(batch.latents), to_string(batch.text),
               also("image condition", batch.condition), also("image states", batch.image_states));
    const runtime::ProgramReport& report = training.trainer->report(i);
    fmt::print("step compiled in {:.2f} s{}, {:.1f} MB of temporaries\n", report.compile_seconds,
               report.from_cache ? " (from the cache)" : "",
               static_cast<double>(report.memory.temporary) / 1e6);
  }
  if (const Expert& expert = training.expert; expert.boundary_ratio) {
    fmt::print("expert: {}, {}\n", expert.name, expert.timesteps());
  }
  fmt::print("memory: {:.2f} GB at most (state {:.2f}, step {:.2f}, before them {:.2f})\n",
             gb(training.memory.predicted()), gb(training.memory.state), gb(training.memory.step),
             gb(training.memory.held));
  fmt::print("steps: {} to {}, {}\n", training.first_step + 1, config.optimizer.max_train_steps,
             describe(training.schedule));
  if (const std::string line = describe(training.room); !line.empty()) {
    fmt::print("{}\n", line);
  }
  if (config.parallel.debug_sharding) {
    for (const std::string& line : training.trainer->sharding_report()) {
      fmt::print("{}\n", line);
    }
  }
  std::fflush(stdout);
}

/// Adds up what each part of the loop takes; the first step, which may still set things up, apart.
void measure(training::LoopParts& parts, training::Timings& timings) {
  parts.next_batch = [&timings, next = parts.next_batch] {
    return timings.measure("waiting for data", next);
  };
  parts.run_step = [&timings, step = parts.run_step, first = true](
                       int64_t i, double rate, const data::Batch& batch) mutable {
    const char* phase = std::exchange(first, false) ? "first step" : "steps";
    return timings.measure(phase, [&] { return step(i, rate, batch); });
  };
  parts.save = [&timings, save = parts.save](int64_t steps, bool go_on) {
    const Waiting waiting("writing the checkpoint");
    timings.measure("checkpoints", [&] { save(steps, go_on); });
  };
  parts.saved = [&timings, saved = parts.saved](bool wait) {
    if (wait) {
      const Waiting waiting("writing the checkpoint");
      timings.measure("checkpoints", [&] { saved(true); });
    } else {
      saved(false);
    }
  };
  parts.evaluate = [&timings, evaluate = parts.evaluate](int64_t step) {
    timings.measure("evaluation", [&] { evaluate(step); });
  };
}

std::string timings_line(const training::Timings& timings) {
  std::string out;
  for (const training::Timings::Phase& phase : timings.phases()) {
    out += fmt::format("{}{} {:.1f} s", out.empty() ? "time: " : ", ", phase.name, phase.seconds);
  }
  return out;
}

/// Looks now and then whether a run's folder is still there. It may be removed by hand, or by
/// something that tidies up.
class FolderWatch {
 public:
  explicit FolderWatch(const training::RunLock& lock) : lock_(lock) {}

  bool is_gone() {
    constexpr double kPause = 1;  // seconds; a folder may lie on a slow file system
    if (!gone_ && since_.seconds() >= kPause) {
      gone_ = !lock_.is_in_place();
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
  const training::RunLock& lock_;
  Stopwatch since_;
  bool gone_ = false;
};

training::LoopEnd run_steps(Training& training, const config::Config& config, RunRecords& records,
                            WatchedVideos& videos, const pjrt::Client& client,
                            FolderWatch& folder) {
  training::LoopParts parts = training.parts();
  std::optional<training::ProfileWindow> profile;
  const auto say = [&](const std::string& line) {
    if (!line.empty()) {
      records.line(line);
    }
  };
  if (config.run.enable_profiler && training.first_step < config.optimizer.max_train_steps) {
    profile.emplace(
        training::ProfileOptions{.skip_first = config.run.skip_first_n_steps_for_profiler,
                                 .steps = config.run.profiler_steps},
        client.plugin(),
        config.run.tensorboard_dir.empty() ? training.run / "profile"
                                           : fs::path(config.run.tensorboard_dir),
        training.first_step, config.optimizer.max_train_steps);
    parts.begin_step = [&](int64_t step) { say(profile->before_step(step)); };
  }
  parts.report = [&](const training::StepRecord& record) {
    records.step(training.measured(record));
  };
  parts.evaluate = [&](int64_t step) {
    if (training.evaluator) {
      const Waiting waiting("evaluating");
      const Stopwatch watch;
      const training::Evaluation evaluation = training.evaluate();
      records.evaluation(step, evaluation, watch.seconds());
    }
    videos.after_evaluation(step);
  };
  training.log = [&](const std::string& line) { records.line(line); };
  parts.stop_requested = [&] { return Stopping::requested() || folder.is_gone(); };
  parts.say = [](const std::string& text) { warn(text); };
  measure(parts, training.timings);
  std::optional<pjrt::TransferGuard> guard;
  if (config.runtime.transfer_guard) {
    guard.emplace("the training steps");
  }
  const training::LoopEnd end = training::train_loop(training.loop_options(config), parts);
  if (profile) {
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

/// A run whose steps are all made: nothing is loaded for it.
int end_at_once(RunStores& stores, const Start& start, int64_t max_steps, bool json) {
  stores.finish();
  warn(nothing_to_do(start.saved.step, max_steps));
  if (json) {
    print_line(io::Json::object({{"run_folder", stores.run()},
                                 {"steps", start.saved.step},
                                 {"skipped", 0},
                                 {"stopped", false}})
                   .dump());
  } else {
    print_line(fmt::format("done after {}: {}", counted(start.saved.step, "step"), stores.run()));
  }
  return 0;
}

/// What needs neither data nor model to be known.
void check_before_loading(const config::Loaded& loaded, const fs::path& run_folder) {
  const config::RunConfig& run = loaded.config.run;
  io::check_writable(checkpoints_folder(loaded.config, run_folder));
  for (const std::string& file : {run.metrics_file, run.timing_metrics_file}) {
    check(file.empty() || !fs::is_directory(file), "[train] {} is a folder, a file was expected",
          file);
    io::make_folder(fs::path(file).parent_path());
  }
  io::make_folder(run.tensorboard_dir);
  if (makes_videos(run)) {
    read_prompts(loaded);
  }
  if (run.checkpoint_every < 1 && !run.save_final_checkpoint) {
    warn(
        "THIS RUN WILL END WITHOUT WEIGHTS: checkpoint_every is -1 and save_final_checkpoint is "
        "false; save_final_checkpoint=true saves them");
  }
}

struct TrainWords {
  std::vector<std::string> words;
  bool json = false;
  bool verbose = false;
};

int train_run(const TrainWords& given_words) {
  const auto& [words, json, verbose] = given_words;
  config::Loaded loaded = load_arguments(words, /*need_file=*/true);
  for (const std::string& line : notices(loaded, "train")) {
    warn(line);
  }
  for (const std::string& line : device_notices(loaded.config)) {
    warn(line);
  }
  const flags::Effective flags = check_flags(loaded);
  take_run_as_model(loaded.config);
  config::Loaded given = loaded;  // with models as they were named
  RunStores stores(loaded.config);
  const fs::path run = run_folder(loaded.config);
  trace::name_thread("main");
  const training::RunLock lock(run);
  stores.begin(to_yaml(given));
  const Start start = find_start(loaded.config, run);
  if (stores.checkpoints() != nullptr) {
    stores.checkpoints()->keep(keep_of(loaded, start));
  }
  if (is_done(loaded.config, start)) {
    check(start.folder.parent_path() == checkpoints_folder(loaded.config, run),
          "[train] the run of resume_from has made {} already, and max_train_steps is {}\n  a "
          "larger max_train_steps goes on with it",
          counted(start.saved.step, "step"), loaded.config.optimizer.max_train_steps);
    return end_at_once(stores, start, loaded.config.optimizer.max_train_steps, json);
  }
  check_before_loading(loaded, run);
  fetch_models(loaded.config, Use::TRAIN);
  fetch_data(loaded.config);
  const config::Config& config = loaded.config;
  const Stopping stop("this step, with a checkpoint");
  const pjrt::Client client = runtime::open_client(client_spec(config));
  Training training = prepare_training(loaded, client, run, start, stores.checkpoints());
  if (!training.prefetcher) {
    stores.finish();
    print_line(fmt::format("stopped {}; the same command goes on",
                           training.source ? "before the first step" : "while clips were encoded"));
    return 0;
  }
  training.verbose = verbose;
  if (training.expert.boundary_ratio) {  // of the pipeline, unless it was given
    given.config.generate.boundary_ratio = *training.expert.boundary_ratio;
  }
  io::write_file(run / "config.yml", to_yaml(given));
  io::write_file(run / "flags.json", flags::to_json(flags).dump());
  if (!json) {
    announce(training, config, stores.run());
  }
  RunRecords records(training, config, json, allowed_text(flags), [&stores] { stores.hint(); });
  WatchedVideos videos(loaded, training, client, flags::given_json(flags), records);
  const bool done = training.first_step >= config.optimizer.max_train_steps;
  if (done) {
    warn(nothing_to_do(training.first_step, config.optimizer.max_train_steps));
  } else {
    videos.before_training();
  }
  FolderWatch folder(lock);
  const training::LoopEnd end = run_steps(training, config, records, videos, client, folder);
  folder.check(run, end.steps, training.checkpoints->path());
  if (!done && !end.stopped) {
    videos.after_training(end.steps);
  }
  records.finish();
  if (config.run.write_timing_metrics) {
    const std::string& file = config.run.timing_metrics_file;
    training.timings.write(file.empty() ? run / "timings.jsonl" : fs::path(file));
  }
  stores.finish();
  const int64_t peak = runtime::peak_bytes({client, training.options.place});
  if (json) {
    io::Json report = io::Json::object();
    report.set("run_folder", stores.run())
        .set("steps", end.steps)
        .set("skipped", end.skipped)
        .set("stopped", end.stopped)
        .set("notes", io::Json::array({training.notes.begin(), training.notes.end()}))
        .set("memory", io::Json::object({{"predicted_bytes", training.memory.predicted()},
                                         {"peak_bytes", peak}}));
    print_line(report.dump());
  } else {
    print_line(fmt::format("{} after {}: {}", end.stopped ? "stopped" : "done",
                           counted(end.steps, "step"), stores.run()));
    print_line(timings_line(training.timings));
    if (peak > 0) {
      print_line(fmt::format("memory: {:.2f} GB at its peak, {:.2f} GB predicted", gb(peak),
                             gb(training.memory.predicted())));
    }
  }
  return 0;
}

}  // namespace

void add_train(Program& program) {
  Command command =
      program.add("train", "Train; goes on by itself where the run folder holds a checkpoint");
  const auto given = std::make_shared<TrainWords>();
  command
      .option("CONFIG key=value", given->words,
              "a YAML file, and keys that win over it: run_name, max_train_steps, "
              "learning_rate, train_data_dir, ...")
      .required();
  command.flag("--json", given->json, "print JSON about the run at its end, and no line a step");
  command.flag("--verbose", given->verbose, "name checkpoints with a checksum of each part");
  command.run([given] { return train_run(*given); });
}

}  // namespace kinema::cli
