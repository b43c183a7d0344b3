#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "kinema/cli/commands.h"
#include "kinema/cli/console.h"
#include "kinema/cli/observing.h"
#include "kinema/cli/processes.h"
#include "kinema/cli/stopping.h"
#include "kinema/cli/train_console.h"
#include "kinema/core/quantities.h"
#include "kinema/jobs/train.h"

namespace kinema::cli {
namespace {

std::string timings_line(std::span<const training::Timings::Phase> phases) {
  std::string out;
  for (const training::Timings::Phase& phase : phases) {
    out += fmt::format("{}{} {:.1f} s", out.empty() ? "time: " : ", ", phase.name, phase.seconds);
  }
  return out;
}

void print_result(const jobs::TrainResult& result) {
  if (!result.stopped_in.empty()) {
    print_line(fmt::format("stopped {}; the same command resumes", result.stopped_in));
    return;
  }
  const std::string why = result.stopped_for.empty() ? "" : " (" + result.stopped_for + ")";
  print_line(fmt::format("{} after {}{}: {}", result.stopped ? "stopped" : "done",
                         counted(result.steps, "step"), why, result.run_folder));
  if (!result.timings.empty()) {
    print_line(timings_line(result.timings));
  }
  if (result.peak_bytes > 0) {
    print_line(fmt::format("memory: {:.2f} GB peak, {:.2f} GB predicted",
                           static_cast<double>(result.peak_bytes) / 1e9,
                           static_cast<double>(result.predicted_bytes) / 1e9));
  }
}

struct TrainArguments {
  std::vector<std::string> words;
  bool json = false;
  bool verbose = false;
};

int train_run(const TrainArguments& given) {
  const std::stop_source stop;
  std::optional<Stopping> stopping;
  TrainConsole console(given.json);
  jobs::TrainObserver observer = console.observer();
  observer.on_begin = [&] {
    stopping.emplace("the current operation, before the first step", stop);
  };
  observer.on_start = [&, show = observer.on_start](const jobs::TrainStart& start) {
    stopping.emplace("this step, with a checkpoint", stop);
    show(start);
  };
  observer.checksums = given.verbose;
  JobOptions job = job_options(stop.get_token());
  job.world = joined_world("train", given.words);  // first, so that errors are reported once
  const config::Loaded loaded = load_arguments(given.words, /*need_file=*/true);
  job.world = joined_world(loaded.config);
  const jobs::TrainResult result = jobs::train(loaded, observer, job);
  console.finish();
  if (given.json && result.stopped_in.empty()) {
    print_line(result.json().dump());
  } else {
    print_result(result);
  }
  return 0;
}

}  // namespace

void add_train(Program& program) {
  Command command = program.add("train", "Train, or resume the run if its folder has a checkpoint");
  const auto given = std::make_shared<TrainArguments>();
  command
      .option("CONFIG key=value", given->words,
              "a YAML file, and keys that override it: run_name, max_train_steps, learning_rate, "
              "train_data_dir, ...")
      .required();
  command.flag("--json", given->json, "print JSON about the run at its end, and no line per step");
  command.flag("--verbose", given->verbose, "print a checksum of each part of checkpoints");
  command.run([given] { return train_run(*given); });
}

}  // namespace kinema::cli
