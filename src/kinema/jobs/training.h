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
#include "kinema/networks/with_text.h"
#include "kinema/optimizers/schedule.h"
#include "kinema/pjrt/client.h"
#include "kinema/resolve/resume.h"
#include "kinema/resolve/settings.h"
#include "kinema/resolve/training_settings.h"
#include "kinema/resolve/training_step.h"
#include "kinema/training/background.h"
#include "kinema/training/checkpoint.h"
#include "kinema/training/early_stopping.h"
#include "kinema/training/evaluation.h"
#include "kinema/training/experts.h"
#include "kinema/training/loop.h"
#include "kinema/training/memory.h"
#include "kinema/training/shared_state.h"
#include "kinema/training/timings.h"

namespace kinema::jobs {

/// A training run that is ready for its first step: all parts of the loop.
struct Training {
  std::filesystem::path run;
  std::vector<std::filesystem::path> pretrained;  // of each network; empty: from scratch
  /// The network without the text encoders that train with it; with its ControlNet.
  networks::Network plain;
  /// The files of these and of the ControlNet, and the words that are trained; without networks and
  /// adapters.
  training::BaseModels base;
  std::vector<networks::InnerText> inner_texts;
  resolve::TrainingStep step;
  int64_t parameters = 0;
  int64_t trained_parameters = 0;
  int64_t first_step = 0;
  int64_t first_position = 0;
  std::vector<training::BatchShapes> batches;  // one per size of the data
  std::optional<training::TwoExperts> two;
  std::vector<optimizers::Schedule> schedules;  // of each network
  resolve::TrainingSettings settings;
  data::PrefetchOptions prefetch;
  std::optional<datasets::ClipSettings> clips;  // the data set, if it consists of clips
  std::map<std::string, std::string> record;    // the settings that checkpoints store
  std::vector<std::string> notes;  // log lines about the checkpoint from which the run resumes
  checkpoints::CheckpointSpace space;
  std::string scheduler_config;          // of the pipeline, stored in checkpoints; empty: none
  std::vector<double> tflops;            // per device and step, for each of `batches`
  std::vector<double> expected_seconds;  // of a step, likewise; 0: unknown
  training::LoopOptions loop;
  training::Timings timings;
  training::MemoryUse memory;              // before the state was loaded
  training::EarlyStopping early_stopping;  // of all evaluations, including those before a resume
  std::filesystem::path resumed;           // the checkpoint from which the run resumes; empty: none
  bool checksums = false;  // log lines about checkpoints contain a checksum of each part
  /// Called for each checkpoint when it is complete, between steps.
  std::function<void(const std::string&)> log;

  std::unique_ptr<data::Source> source;
  std::unique_ptr<data::Prefetcher> prefetcher;  // reads `source`
  std::unique_ptr<training::Experts> experts;    // one expert if a single network is trained
  std::unique_ptr<data::Source> eval_source;     // empty: no evaluation
  std::unique_ptr<training::Evaluator> evaluator;
  std::unique_ptr<checkpoints::CheckpointFolder> checkpoints;
  checkpoints::StoredCheckpoints* stored = nullptr;  // uploads `checkpoints`
  /// For a run with several processes, which write checkpoints together; else null.
  std::unique_ptr<training::SharedState> shared;
  std::unique_ptr<world::Communicator> writers;
  std::unique_ptr<training::Background> writer;  // writes `checkpoints` on another thread

  /// The parts of the state that checkpoints contain.
  training::Held held() const;
  /// A checkpoint's path for log lines, with its checksums if `checksums` is set.
  std::string described(const std::filesystem::path& checkpoint) const;
  /// Adds epoch, memory and expert to the loop's record.
  training::StepRecord measured(training::StepRecord record) const;
  /// The learning rate of step `i`, from the schedule of its expert.
  double rate(int64_t i) const;
  /// The position in the data's order after `steps` completed steps.
  int64_t position(int64_t steps) const;
  training::Evaluation evaluate() const;
  /// The loop's callbacks without `report`, `evaluate`, `stop_requested` and `say`. They refer to
  /// this object.
  training::LoopParts parts();

 private:
  void save(int64_t steps, bool go_on);
  void report_saved(bool wait);
};

/// Opens data, model and state (from the checkpoint at which the run starts, the pretrained folder,
/// or from scratch), compiles the step and starts prefetching.
///
/// A max_train_steps of -1 becomes the steps of num_train_epochs (Training::loop).
///
/// Throws an Error if data and model do not fit together, or if the checkpoint was made with other
/// settings. `stored`: the store of checkpoints, in addition to the run folder; must outlive the
/// result. The result has no prefetcher if a stop was requested while clips were encoded or
/// programs compiled.
Training prepare_training(const resolve::Settings& given, const pjrt::Client& client,
                          const std::filesystem::path& run, const resolve::Start& start,
                          checkpoints::StoredCheckpoints* stored, const Job& job);

}  // namespace kinema::jobs
