#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "cli/commands.h"
#include "cli/compiler_flags.h"
#include "cli/data_sets.h"
#include "cli/device.h"
#include "cli/models.h"
#include "cli/run_records.h"
#include "cli/stores.h"
#include "cli/training.h"
#include "cli/watched_videos.h"
#include "core/error.h"
#include "core/trace.h"
#include "io/atomic_write.h"
#include "io/json.h"
#include "pjrt/transfers.h"
#include "train/profile_window.h"
#include "train/run_lock.h"
#include "train/stop_signal.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

/// `, NAME SHAPE`, of what not every batch has.
std::string also(const char* name, const std::optional<Shape>& shape) {
  return shape ? fmt::format(", {} {}", name, to_string(*shape)) : "";
}

/// What stands before the first step.
void announce(const Training& training, const config::Config& config, const std::string& run) {
  fmt::print("run folder: {}\n", run);
  fmt::print("model: {} parameters, {}\n", training.parameters,
             training.first_step > 0 ? fmt::format("resumed after step {}", training.first_step)
             : training.pretrained.empty() ? "from scratch"
                                           : "from " + training.pretrained.string());
  if (const mesh::Placement& place = training.options.place; place.active()) {
    fmt::print("devices: {}, {}\n", place.mesh().devices(), mesh::axes_text(place.mesh().axes));
  }
  if (!training.resumed.empty()) {
    fmt::print("checkpoint read: {}; next sample {}\n", training.resumed, training.first_position);
  }
  for (size_t i = 0; i < training.batches.size(); ++i) {
    const train::BatchShapes& batch = training.batches[i];
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
  fmt::print("steps: {} to {}\n", training.first_step, config.optimizer.max_train_steps);
  if (config.parallel.debug_sharding) {
    for (const std::string& line : training.trainer->sharding_report()) {
      fmt::print("{}\n", line);
    }
  }
  std::fflush(stdout);
}

/// Adds up what each part of the loop takes; the first step, which may still set things up, apart.
void measure(train::LoopParts& parts, train::Timings& timings) {
  parts.next_batch = [&timings, next = parts.next_batch] {
    return timings.measure("waiting for data", next);
  };
  parts.run_step = [&timings, step = parts.run_step, first = true](
                       int64_t i, double rate, const data::Batch& batch) mutable {
    const char* phase = std::exchange(first, false) ? "first step" : "steps";
    return timings.measure(phase, [&] { return step(i, rate, batch); });
  };
  parts.save = [&timings, save = parts.save](int64_t steps, bool go_on) {
    timings.measure("checkpoints", [&] { save(steps, go_on); });
  };
  parts.saved = [&timings, saved = parts.saved](bool wait) {
    if (wait) {
      timings.measure("checkpoints", [&] { saved(true); });
    } else {
      saved(false);
    }
  };
  parts.evaluate = [&timings, evaluate = parts.evaluate](int64_t step) {
    timings.measure("evaluation", [&] { evaluate(step); });
  };
}

std::string timings_line(const train::Timings& timings) {
  std::string out;
  for (const train::Timings::Phase& phase : timings.phases()) {
    out += fmt::format("{}{} {:.1f} s", out.empty() ? "time: " : ", ", phase.name, phase.seconds);
  }
  return out;
}

train::LoopEnd run_steps(Training& training, const config::Config& config, RunRecords& records,
                         WatchedVideos& videos, const pjrt::Client& client) {
  train::LoopParts parts = training.parts();
  std::optional<train::ProfileWindow> profile;
  const auto say = [&](const std::string& line) {
    if (!line.empty()) {
      records.line(line);
    }
  };
  if (config.run.enable_profiler && training.first_step < config.optimizer.max_train_steps) {
    profile.emplace(train::ProfileOptions{.skip_first = config.run.skip_first_n_steps_for_profiler,
                                          .steps = config.run.profiler_steps},
                    client.plugin(),
                    config.run.tensorboard_dir.empty() ? training.run / "profile"
                                                       : fs::path(config.run.tensorboard_dir),
                    training.first_step, config.optimizer.max_train_steps);
    parts.begin_step = [&](int64_t step) { say(profile->before_step(step)); };
  }
  parts.report = [&](const train::StepRecord& record) { records.step(record); };
  parts.evaluate = [&](int64_t step) {
    if (training.evaluator) {
      const auto start = std::chrono::steady_clock::now();
      const train::Evaluation evaluation = training.evaluate();
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      records.evaluation(step, evaluation, seconds.count());
    }
    videos.after_evaluation(step);
  };
  training.log = [&](const std::string& line) { records.line(line); };
  parts.stop_requested = [] { return train::StopSignal::requested(); };
  parts.say = [](const std::string& text) { warn(text); };
  measure(parts, training.timings);
  std::optional<pjrt::TransferGuard> guard;
  if (config.runtime.transfer_guard) {
    guard.emplace("the training steps");
  }
  const train::LoopEnd end = train::train_loop(training.loop_options(config), parts);
  if (profile) {
    say(profile->finish());
  }
  return end;
}

int train_run(const std::vector<std::string>& words, bool json) {
  config::Loaded loaded = load_arguments(words, /*need_file=*/true);
  for (const std::string& line : notices(loaded, "train")) {
    warn(line);
  }
  for (const std::string& line : device_notices(loaded.config)) {
    warn(line);
  }
  const flags::Effective flags = check_flags(loaded);
  config::Loaded given = loaded;  // with models as they were named
  RunStores stores(loaded.config);
  const fs::path run = run_folder(loaded.config);
  trace::name_thread("main");
  const train::RunLock lock(run);
  stores.begin(to_yaml(given));
  fetch_models(loaded.config, Use::TRAIN);
  fetch_data(loaded.config);
  const config::Config& config = loaded.config;
  const train::StopSignal stop;
  const pjrt::Client client = runtime::open_client(client_spec(config));
  Training training = prepare_training(loaded, client, run, stores.checkpoints());
  if (!training.prefetcher) {
    stores.finish();
    fmt::print("stopped while clips were encoded; the same command goes on\n");
    return 0;
  }
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
  const bool is_done = training.first_step >= config.optimizer.max_train_steps;
  if (is_done) {
    warn(fmt::format("all {} steps are done; max_train_steps says how many", training.first_step));
  } else {
    videos.before_training();
  }
  const train::LoopEnd end = run_steps(training, config, records, videos, client);
  if (!is_done && !end.stopped) {
    videos.after_training(end.steps);
  }
  records.finish();
  if (config.run.write_timing_metrics) {
    const std::string& file = config.run.timing_metrics_file;
    training.timings.write(file.empty() ? run / "timings.jsonl" : fs::path(file));
  }
  stores.finish();
  if (json) {
    io::Json report = io::Json::object();
    report.set("run_folder", stores.run())
        .set("steps", end.steps)
        .set("skipped", end.skipped)
        .set("stopped", end.stopped);
    fmt::print("{}\n", report.dump());
  } else {
    fmt::print("{} after {} steps: {}\n", end.stopped ? "stopped" : "done", end.steps,
               stores.run());
    fmt::print("{}\n", timings_line(training.timings));
  }
  return 0;
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "train", "Train; goes on by itself where the run folder holds a checkpoint");
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto json = std::make_shared<bool>(false);
  command
      ->add_option("CONFIG key=value", *words,
                   "a YAML file, and keys that win over it: run_name, max_train_steps, "
                   "learning_rate, train_data_dir, ...")
      ->required();
  command->add_flag("--json", *json, "print JSON about the run at its end, and no line a step");
  command->callback([=, &action] { action = [words, json] { return train_run(*words, *json); }; });
}

}  // namespace kinema::cli
