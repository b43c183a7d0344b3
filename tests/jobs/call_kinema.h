#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/run_kinema.h"
#include "kinema/core/quantities.h"
#include "kinema/kinema.h"
#include "kinema/training/evaluation.h"
#include "kinema/training/loop.h"

/// The program's jobs as calls of the library, with the program's arguments, so that tests of both
/// look the same. Log lines are kept as text.
namespace kinema::jobs_test {

using cli_test::losses_of;
using cli_test::Outcome;
using cli_test::read_text;
using cli_test::tiny_config;

/// Collects a job's output: notices in `err`, log lines about the work in `out`.
class Listener {
 public:
  template <typename Kind>
  Kind observer() {
    Kind out;
    out.on_notice = [this](const std::string& line) { told.err += "kinema: " + line + "\n"; };
    out.on_line = [this](const std::string& line) { say(line); };
    return out;
  }
  void say(const std::string& line) { told.out += line + "\n"; }

  Outcome told;
};

inline std::string sizes_text(const training::BatchShapes& batch) {
  std::string out = fmt::format("batch: {} samples of {} with text {}", batch.latents.dims[0],
                                to_string(batch.latents), to_string(batch.text));
  for (const auto& [name, shape] : {std::pair{"image condition", batch.condition},
                                    std::pair{"image states", batch.image_states}}) {
    out += shape ? fmt::format(", {} {}", name, to_string(*shape)) : "";
  }
  return out;
}

inline TrainObserver train_observer(Listener& to) {
  auto out = to.observer<TrainObserver>();
  out.on_start = [&to](const TrainStart& start) {
    if (start.first_step > 0) {
      to.say(fmt::format("resumed after step {}", start.first_step));
    }
    if (!start.mesh.empty()) {
      to.say(fmt::format("devices: {}, {}", start.devices, start.mesh));
    }
    for (const std::string& note : start.notes) {
      to.say(note);
    }
    to.say("global batch: " + start.batch);
    for (const auto& [batch, report] : start.steps) {
      to.say(sizes_text(batch));
      to.say(report.from_cache ? "step (from the cache)" : "step compiled");
    }
    if (start.expert.boundary_ratio) {
      to.say(fmt::format("expert: {}, {}", start.expert.name(), start.expert.timesteps()));
    }
    for (const std::string& line : start.sharding) {
      to.say(line);
    }
  };
  out.on_step = [&to](const StepRecord& step) { to.say(training::console_line(step)); };
  out.on_evaluation = [&to](int64_t step, const jobs::Evaluation& evaluation, double seconds) {
    for (const std::string& line : training::evaluation_lines(step, evaluation, seconds)) {
      to.say(line);
    }
  };
  out.on_videos = [&to](const jobs::VideosWritten& made) {
    to.say(
        fmt::format("{} {}: {}", counted(static_cast<int64_t>(made.files.size()), made.noun),
                    made.step < 0 ? "before training" : fmt::format("after step {}", made.step + 1),
                    made.files.front().parent_path().string()));
  };
  out.on_comparison = [&to](const jobs::VideosCompared& made) {
    to.say(fmt::format("first {} after step {} against before training: SSIM {:.4f}", made.noun,
                       made.step + 1, made.ssim));
  };
  return out;
}

inline PrepareObserver prepare_observer(Listener& to) {
  auto out = to.observer<PrepareObserver>();
  out.on_shard = [&to](const preparation::Shard& shard) {
    to.say(fmt::format("{}: {}", shard.name, counted(shard.records, "record")));
  };
  out.on_skip = [&to](const preparation::SkippedClip& clip) {
    to.told.err += fmt::format("kinema: skipped: {}: {}\n", clip.file, clip.reason);
  };
  out.on_folder = [&to](const PreparedFolder& folder) {
    const preparation::Prepared& made = folder.made;
    to.say(fmt::format(
        "{} for {}: {} in {} of {}{}", made.stopped ? "stopped" : "prepared", folder.kind,
        counted(made.records, "record"), counted(static_cast<int64_t>(made.shards.size()), "shard"),
        folder.path,
        made.records_found > 0 ? fmt::format(" ({} were there)", made.records_found) : ""));
    if (!made.condition.dims.empty()) {
      to.say(fmt::format("image condition {}, image states {}", to_string(made.condition),
                         to_string(made.image)));
    }
  };
  return out;
}

/// A test with its own folder, which is the working folder while a job runs.
class RunsTest : public cli_test::KinemaOnCpu {
 protected:
  // Hides XLA's log lines; plugins read the variable when they are loaded.
  static void SetUpTestSuite() { ::setenv("TF_CPP_MIN_LOG_LEVEL", "1", /*replace=*/0); }

  /// Calls the job with these command line arguments. Jobs without a call, JSON output, and jobs
  /// that need another process (an environment, an instruction set limit) are run by the program.
  Outcome run(const std::vector<std::string>& words, const std::string& environment = "") {
    return environment.empty() && has_call(words) ? call(words)
                                                  : KinemaOnCpu::run(words, environment);
  }

 private:
  static bool has_call(const std::vector<std::string>& words) {
    const bool known = words.at(0) == "train" || words[0] == "generate" || words[0] == "prepare";
    return known && std::ranges::none_of(words, [](const std::string& word) {
             return word.starts_with("--") || word.starts_with("cpu_isa=");
           });
  }

  Outcome call(const std::vector<std::string>& words) const {
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(folder_);
    Listener listener;
    try {
      dispatch(words, listener);
      listener.told.status = 0;
    } catch (const Error& error) {
      listener.told.status = 1;
      listener.told.err += std::string("kinema: ") + error.what() + "\n";
    }
    std::filesystem::current_path(before);
    return listener.told;
  }

  static Config config_of(const std::vector<std::string>& words, Listener& to) {
    std::string file;
    std::vector<std::string> keys;
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[i].find('=') == std::string::npos) {
        file = words[i];
      } else {
        keys.push_back(words[i]);
      }
    }
    return load_config(file, keys, to.observer<Observer>());
  }

  static void dispatch(const std::vector<std::string>& words, Listener& to) {
    const std::string& command = words.at(0);
    if (command == "train") {
      const TrainResult made = train(config_of(words, to), train_observer(to));
      to.say(fmt::format("done after {} steps: {}", made.steps, made.run_folder));
    } else if (command == "generate") {
      auto observer = to.observer<GenerateObserver>();
      observer.on_sharding = [&to](const std::vector<std::string>& lines) {
        for (const std::string& line : lines) {
          to.say(line);
        }
      };
      const GenerateResult made = generate(config_of(words, to), observer);
      for (const GenerateResult::Video& video : made.videos) {
        to.say(video.path);
      }
    } else {
      prepare(config_of(words, to), prepare_observer(to));
    }
  }
};

}  // namespace kinema::jobs_test
