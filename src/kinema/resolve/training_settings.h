#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/config/config.h"
#include "kinema/data/prefetch.h"
#include "kinema/flags/effective.h"
#include "kinema/job/job.h"
#include "kinema/model_source/expert.h"
#include "kinema/optimizers/schedule.h"
#include "kinema/resolve/resume.h"
#include "kinema/resolve/settings.h"
#include "kinema/resolve/training_step.h"
#include "kinema/training/evaluation.h"
#include "kinema/training/loop.h"
#include "kinema/training/profile_window.h"

/// A training run's settings, without its model, step and data: its length, and what it saves,
/// measures and writes.
namespace kinema::resolve {

struct TrainingSettings {
  int64_t seed = 0;
  bool reuse_batch = false;            // every step trains on the first batch
  bool save_optimizer = true;          // checkpoints contain the optimizer's state
  bool background_checkpoints = true;  // training continues while a checkpoint is written
  bool debug_nans = false;
  bool debug_sharding = false;
  double caption_dropout = 0;
  bool compiled_step = false;   // the step comes from a file, with fixed batch shapes
  bool sizes_only = false;      // only the sizes of the pretrained network are used
  bool init_optimizer = false;  // init_from also loads the optimizer's state
  bool one_reader = false;      // one process reads a checkpoint and sends it to the others
  int64_t accumulation = 1;     // batches per step
  std::string optimizer;        // its name
  bool trace_kernels = false;   // for the profiler
  bool evaluates = false;       // evaluations compute a loss
  std::string evaluation_data;  // the name of their samples in errors
};
TrainingSettings training_settings(const config::Config& config);

/// The steps at which the run saves; only the last one for a run of epochs, until its number of
/// steps is known.
checkpoints::SavedSteps saved_steps(const config::Config& config, const Start& start);

/// The settings of prefetching, without the batch size and position.
data::PrefetchOptions prefetch_options(const config::Config& config);

/// The settings that determine the losses of an evaluation.
training::EvaluationOptions evaluation_options(const config::Config& config,
                                               const model_source::Expert& expert);

/// The mesh's axes that divide a batch of `samples` samples.
std::vector<std::string> batch_axes(const config::Config& config, const mesh::Placement& place,
                                    int64_t samples);

/// The length of a run and its loop, once the data is known.
struct RunLength {
  training::LoopOptions loop;  // without first_step and peak_tflops
  optimizers::Schedule schedule;
  std::map<std::string, std::string> record;  // the settings in checkpoints
  std::vector<std::string> notes;             // log lines about changes since the run started
};
/// `known`: the configuration with resolved defaults (resolved_config). `samples`: of the data set;
/// `batch`: samples per step.
RunLength run_length(const config::Config& known, const Start& start, int64_t samples,
                     int64_t batch);

/// The settings with the values that defaults get from devices, data and model (resolved_config).
Settings with_resolved(const Settings& settings, const TrainingStep& step,
                       const model_source::Expert& expert);

/// Throws an Error if the checkpoint was made with other values of settings that must stay the
/// same.
void check_resumes(const Start& start, const config::Config& known);

/// Throws an Error if the run's videos need more sampler steps than the schedule has.
void check_sampler(const config::Config& config, const networks::Network& network);

/// The scheduler_config.json of checkpoints, with which the network is sampled: the pretrained
/// model's; without one, that of a diffusion. Empty if there is neither.
std::string scheduler_config(const config::Config& config, const networks::Network& network,
                             const training::ObjectiveOptions& objective);

/// Settings of the training loop in addition to its steps.
struct LoopSettings {
  std::optional<training::ProfileOptions> profile;
  std::filesystem::path profile_folder;
  bool transfer_guard = false;  // implicit transfers are errors
  /// The run stops after this many evaluations without a lower loss; nothing: never.
  std::optional<int64_t> evaluations_without_gain;

  /// True if the evaluations so far stop the run.
  bool is_over(const training::EarlyStopping& early_stopping) const {
    return evaluations_without_gain && early_stopping.is_over(*evaluations_without_gain);
  }
};
LoopSettings loop_settings(const config::Config& config, const std::filesystem::path& run,
                           const Job& job);

/// The files that a run writes; empty paths: none.
struct RecordSettings {
  std::string run_name;
  double fps = 16;  // of videos on TensorBoard
  int64_t log_period = 1;
  bool writes = true;
  std::filesystem::path metrics;
  std::filesystem::path tensorboard;
  std::filesystem::path metrics_chunks;
  std::filesystem::path timings;
};
RecordSettings record_settings(const config::Config& config, const std::filesystem::path& run);

/// The steps at which a run makes videos of its prompts.
struct VideoSchedule {
  bool any = false;
  bool at_evaluations = false;
  bool compares = false;  // compares videos before and after the training
};
VideoSchedule video_schedule(const config::Config& config);

/// Checks that need neither data nor model: the run's files can be written, and the prompts are
/// valid. Prints warnings.
void check_before_loading(const Settings& settings, const std::filesystem::path& run_folder,
                          const Job& job);

/// Writes the run's config.yml and flags.json: `record` with the boundary of the trained experts,
/// and the compiler flags of `used`.
void write_run_files(const Settings& record, const Settings& used,
                     const model_source::Expert& expert, const std::filesystem::path& run,
                     bool one_device, const Job& job);

}  // namespace kinema::resolve
