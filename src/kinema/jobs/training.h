#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/checkpoints/checkpoint_space.h"
#include "kinema/checkpoints/stored_checkpoints.h"
#include "kinema/data/prefetch.h"
#include "kinema/data/source.h"
#include "kinema/datasets/clips.h"
#include "kinema/job/job.h"
#include "kinema/pjrt/client.h"
#include "kinema/resolve/resume.h"
#include "kinema/resolve/settings.h"
#include "kinema/resolve/training_settings.h"
#include "kinema/resolve/training_step.h"
#include "kinema/training/background.h"
#include "kinema/training/checkpoint.h"
#include "kinema/training/evaluation.h"
#include "kinema/training/experts.h"
#include "kinema/training/gain.h"
#include "kinema/training/loop.h"
#include "kinema/training/memory.h"
#include "kinema/training/schedule.h"
#include "kinema/training/shared_state.h"
#include "kinema/training/timings.h"

namespace kinema::jobs {

/// A training run, ready for its first step: everything the loop is made of.
struct Training {
  std::filesystem::path run;
  std::vector<std::filesystem::path> pretrained;  // of each network; empty: from scratch
  resolve::TrainingStep step;
  int64_t parameters = 0;
  int64_t trained_parameters = 0;
  int64_t first_step = 0;
  int64_t first_position = 0;
  std::vector<training::BatchShapes> batches;  // one of each size that the data has
  std::optional<training::TwoExperts> two;
  std::vector<training::Schedule> schedules;  // of each network
  resolve::TrainingSettings settings;
  data::PrefetchOptions prefetch;
  std::optional<datasets::ClipSettings> clips;  // the data set, where it is of clips
  std::map<std::string, std::string> record;    // the settings that checkpoints keep
  std::vector<std::string> notes;               // on what the run goes on from
  checkpoints::CheckpointSpace space;
  std::string scheduler_config;  // of the pipeline, kept in checkpoints; empty: it has none
  std::vector<double> tflops;    // per device and step, of each of `batches`
  training::LoopOptions loop;
  training::Timings timings;
  training::MemoryUse memory;     // before the state was loaded
  training::Gain gain;            // of the evaluations, those before a resumed run's start too
  std::filesystem::path resumed;  // the checkpoint that the run goes on from; empty: from none
  bool checksums = false;         // checkpoints are named with one of each part
  /// Told of each checkpoint when it is in place, between steps.
  std::function<void(const std::string&)> log;

  std::unique_ptr<data::Source> source;
  std::unique_ptr<data::Prefetcher> prefetcher;  // reads `source`
  std::unique_ptr<training::Experts> experts;    // one, where a single network is trained
  std::unique_ptr<data::Source> eval_source;     // empty: no evaluation
  std::unique_ptr<training::Evaluator> evaluator;
  std::unique_ptr<checkpoints::CheckpointFolder> checkpoints;
  checkpoints::StoredCheckpoints* stored = nullptr;  // sends what is in `checkpoints`
  /// Of a run by several processes, which write checkpoints together; else null.
  std::unique_ptr<training::SharedState> shared;
  std::unique_ptr<world::Communicator> writers;
  std::unique_ptr<training::Background> writer;  // writes to `checkpoints`, with these

  /// What of the state checkpoints have.
  training::Held held() const;
  /// A checkpoint as a line names it.
  std::string described(const std::filesystem::path& checkpoint) const;
  /// What is known of a step beside what the loop says.
  training::StepRecord measured(training::StepRecord record) const;
  /// The learning rate of a step, by its expert's own steps.
  double rate(int64_t i) const;
  /// Where in the data's order the step after `steps` completed ones begins.
  int64_t position(int64_t steps) const;
  training::Evaluation evaluate() const;
  /// The loop's parts but for `report`, `evaluate`, `stop_requested` and `say`. They refer to this
  /// object.
  training::LoopParts parts();

 private:
  void save(int64_t steps, bool go_on);
  void report_saved(bool wait);
};

/// Opens data, model and state (from the checkpoint that the run starts at, the pretrained folder,
/// or from scratch), compiles the step and starts reading ahead.
///
/// A max_train_steps of -1 is what num_train_epochs comes to (Training::loop).
///
/// Throws an Error for data and model that do not fit each other, and for a checkpoint made with
/// other settings. `stored`: where checkpoints go beside the run folder; must outlive the result.
/// Without a prefetcher when the job was told to stop while clips were encoded or programs
/// compiled.
Training prepare_training(const resolve::Settings& given, const pjrt::Client& client,
                          const std::filesystem::path& run, const resolve::Start& start,
                          checkpoints::StoredCheckpoints* stored, const Job& job);

}  // namespace kinema::jobs
