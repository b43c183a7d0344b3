#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "config/config.h"
#include "data/prefetch.h"
#include "data/source.h"
#include "pjrt/client.h"
#include "runs/checkpoint_room.h"
#include "runs/job.h"
#include "runs/resume.h"
#include "runs/training_step.h"
#include "train/background.h"
#include "train/checkpoint.h"
#include "train/checkpoint_folder.h"
#include "train/evaluation.h"
#include "train/loop.h"
#include "train/memory.h"
#include "train/schedule.h"
#include "train/stored_checkpoints.h"
#include "train/timings.h"
#include "train/trainer.h"

namespace kinema::runs {

/// A training run, ready for its first step: everything the loop is made of.
struct Training {
  std::filesystem::path run;
  std::filesystem::path pretrained;  // empty: from scratch
  TrainingStep step;
  int64_t parameters = 0;
  int64_t first_step = 0;
  int64_t first_position = 0;
  std::vector<train::BatchShapes> batches;  // one of each size that the data has
  train::Schedule schedule;
  config::Record settings;         // what a checkpoint keeps of the configuration
  std::vector<std::string> notes;  // on what the run goes on from
  CheckpointRoom room;
  std::string scheduler_config;  // of the pipeline, kept in checkpoints; empty: it has none
  std::vector<double> tflops;    // per device and step, of each of `batches`
  double peak_tflops = 0;
  bool reuse_batch = false;
  bool save_optimizer = true;
  bool in_background = true;  // steps go on while a checkpoint is written
  bool debug_nans = false;
  int64_t seed = 0;
  train::Timings timings;
  train::MemoryUse memory;        // before the state was loaded
  std::filesystem::path resumed;  // the checkpoint that the run goes on from; empty: from none
  bool checksums = false;         // checkpoints are named with one of each part
  /// Told of each checkpoint when it is in place, between steps.
  std::function<void(const std::string&)> log;

  std::unique_ptr<data::Source> source;
  std::unique_ptr<data::Prefetcher> prefetcher;  // reads `source`
  std::unique_ptr<train::Trainer> trainer;
  std::unique_ptr<data::Source> eval_source;  // empty: no evaluation
  std::unique_ptr<train::Evaluator> evaluator;
  std::unique_ptr<train::CheckpointFolder> checkpoints;
  train::StoredCheckpoints* stored = nullptr;  // sends what is in `checkpoints`
  std::unique_ptr<train::Background> writer;   // writes to `checkpoints`

  /// A checkpoint as a line names it.
  std::string described(const std::filesystem::path& checkpoint) const;
  /// What is known of a step beside what the loop says.
  train::StepRecord measured(train::StepRecord record) const;
  /// Where in the data's order the step after `steps` completed ones begins.
  int64_t position(int64_t steps) const;
  train::Evaluation evaluate() const;
  /// The loop's parts but for `report`, `evaluate`, `stop_requested` and `say`. They refer to this
  /// object.
  train::LoopParts parts();
  train::LoopOptions loop_options(const config::Config& config) const;

 private:
  void save(int64_t steps, bool go_on);
  void report_saved(bool wait);
};

/// The loss on samples of these shapes, without gradients.
std::unique_ptr<train::Evaluator> make_evaluator(const config::Config& config,
                                                 const TrainingStep& what,
                                                 const train::BatchShapes& shapes,
                                                 const runtime::Devices& devices);

/// Opens data, model and state (from the checkpoint that the run starts at, the pretrained folder,
/// or from scratch), compiles the step and starts reading ahead.
///
/// A max_train_steps of -1 becomes what num_train_epochs comes to.
///
/// Throws an Error for data and model that do not fit each other, and for a checkpoint made with
/// other settings. `stored`: where checkpoints go beside the run folder; must outlive the result.
/// Without a prefetcher when the job was told to stop while clips were encoded or programs
/// compiled.
Training prepare_training(config::Loaded& loaded, const pjrt::Client& client,
                          const std::filesystem::path& run, const Start& start,
                          train::StoredCheckpoints* stored, const Job& job);

}  // namespace kinema::runs
