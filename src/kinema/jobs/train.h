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

/// A training run from a configuration, as `kinema train` makes it.
namespace kinema::jobs {

using training::Evaluation;
using training::StepRecord;

/// What is known of a run before its first step.
struct TrainStart {
  std::string run_folder;  // as it was named: a path, or gs://...
  int64_t parameters = 0;
  int64_t trained_parameters = 0;
  std::string adapter;  // what of the network is trained: `LoRA of rank 16, ...`; empty: all of it
  std::filesystem::path pretrained;  // where the weights are from; empty: from scratch
  int64_t first_step = 0;            // > 0: the run goes on
  int64_t max_steps = 0;
  std::string resumed;             // the checkpoint that it goes on from; empty: none
  int64_t first_position = 0;      // of the data's order
  std::vector<std::string> notes;  // what changed since, a line each
  int64_t devices = 1;
  std::string mesh;   // its axes; empty on one device
  std::string batch;  // how large a batch is and how it lies on the devices
  int64_t accumulation = 1;
  /// The compiled step of each size that the data has.
  struct Step {
    training::BatchShapes batch;
    runtime::ProgramReport report;
  };
  std::vector<Step> steps;
  model_source::Expert expert;
  training::MemoryUse memory;
  std::string schedule;
  std::string checkpoints;            // how large they are and which stay; empty: none is written
  std::vector<std::string> sharding;  // with debug_sharding
  std::string allowed_flags;          // ` [flags allowed: RULE]`, or nothing
};

/// Videos of a run's prompts by the weights that it trains.
struct VideosMade {
  std::string_view noun;  // of one of them
  int64_t step = -1;      // after which; -1: before the first
  std::vector<std::filesystem::path> files;
  double seconds = 0;
};

/// The first video after a step against the one from before the training.
struct VideosCompared {
  std::string_view noun;
  int64_t step = 0;
  double ssim = 0;
  double psnr = 0;  // decibels; infinite for equal videos
};

struct TrainObserver : Observer {
  /// Lines about checkpoints have a checksum of each part.
  bool checksums = false;
  std::function<void(const TrainStart&)> on_start;
  std::function<void(const StepRecord&)> on_step;
  std::function<void(int64_t step, const Evaluation&, double seconds)> on_evaluation;
  std::function<void(const VideosMade&)> on_videos;
  std::function<void(const VideosCompared&)> on_comparison;
};

struct TrainResult {
  std::string run_folder;
  int64_t steps = 0;  // made, by earlier parts of the run too
  int64_t skipped = 0;
  bool stopped = false;     // asked to, before max_train_steps
  std::string stopped_for;  // why, where nobody asked: `3 evaluations without gain, ...`
  std::string stopped_in;   // where that was before the first step: `while clips were encoded`
  std::vector<std::string> notes;
  int64_t predicted_bytes = 0;  // of the first device; 0: the run had nothing left to do
  int64_t peak_bytes = 0;
  std::vector<training::Timings::Phase> timings;
  std::optional<StepRecord> last;  // step that was made, with epoch and memory
  std::string finished;            // when, in UTC

  io::Json json() const;
};

/// Trains as the configuration says, or goes on with the run of its name. Throws an Error where
/// something was not as it must be; the state is saved first where steps were made.
TrainResult train(const resolve::Settings& config, const TrainObserver& observer,
                  JobOptions options = {});

}  // namespace kinema::jobs
