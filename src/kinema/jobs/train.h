#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/job/job.h"
#include "kinema/model_source/expert.h"
#include "kinema/resolve/settings.h"
#include "kinema/runtime/program.h"
#include "kinema/training/evaluation.h"
#include "kinema/training/loop.h"
#include "kinema/training/memory.h"
#include "kinema/training/step.h"
#include "kinema/training/timings.h"

/// A training run from a configuration: `kinema train`.
namespace kinema::jobs {

using training::Evaluation;
using training::StepRecord;

/// The properties of a run before its first step.
struct TrainStart {
  std::string run_folder;  // as in the configuration: a local path, or gs://...
  int64_t parameters = 0;
  int64_t trained_parameters = 0;
  std::string adapter;               // `LoRA of rank 16, ...`; empty: the whole network is trained
  std::filesystem::path pretrained;  // the source of the weights; empty: from scratch
  int64_t first_step = 0;            // > 0: the run is resumed
  int64_t max_steps = 0;
  std::string resumed;             // the checkpoint from which it resumes; empty: none
  int64_t first_position = 0;      // in the data's order
  std::vector<std::string> notes;  // changes since the checkpoint, one per line
  int64_t devices = 1;
  std::string mesh;   // its axes; empty on one device
  std::string batch;  // the size and sharding of a batch
  int64_t accumulation = 1;
  /// The compiled step of one size of the data.
  struct Step {
    training::BatchShapes batch;
    runtime::ProgramReport report;
  };
  std::vector<Step> steps;
  model_source::Expert expert;
  training::MemoryUse memory;
  std::string schedule;
  std::string checkpoints;            // their size, and which are kept; empty: none is written
  std::vector<std::string> sharding;  // with debug_sharding
  std::string allowed_flags;          // ` [flags allowed: RULE]`; empty if none are
};

/// Videos of a run's prompts with its current weights.
struct VideosWritten {
  std::string_view noun;  // of one of them
  int64_t step = -1;      // after this step; -1: before the first
  std::vector<std::filesystem::path> files;
  double seconds = 0;
};

/// Compares the first video after a step with the one from before the training.
struct VideosCompared {
  std::string_view noun;
  int64_t step = 0;
  double ssim = 0;
  double psnr = 0;  // decibels; infinite for equal videos
};

struct TrainObserver : Observer {
  /// Log lines about checkpoints contain a checksum of each part.
  bool checksums = false;
  std::function<void(const TrainStart&)> on_start;
  std::function<void(const StepRecord&)> on_step;
  std::function<void(int64_t step, const Evaluation&, double seconds)> on_evaluation;
  std::function<void(const VideosWritten&)> on_videos;
  std::function<void(const VideosCompared&)> on_comparison;
};

struct TrainResult {
  std::string run_folder;
  int64_t steps = 0;  // completed, including earlier parts of the run
  int64_t skipped = 0;
  bool stopped = false;     // on request, before max_train_steps
  std::string stopped_for;  // the reason, if not requested: `3 evaluations without gain, ...`
  std::string stopped_in;   // if stopped before the first step: `while clips were encoded`
  std::vector<std::string> notes;
  int64_t predicted_bytes = 0;  // of the first device; 0: the run had no step left
  int64_t peak_bytes = 0;
  std::vector<training::Timings::Phase> timings;
  std::optional<StepRecord> last;  // the last step, with epoch and memory
  std::string finished;            // the time, in UTC

  io::Json json() const;
};

/// Trains with a configuration, or resumes the run with its name. Throws an Error if a check fails;
/// after steps were made, the state is saved first.
TrainResult train(const resolve::Settings& config, const TrainObserver& observer,
                  JobOptions options = {});

}  // namespace kinema::jobs
