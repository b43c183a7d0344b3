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
#include "kinema/resolve/resume.h"
#include "kinema/resolve/settings.h"
#include "kinema/resolve/training_step.h"
#include "kinema/training/evaluation.h"
#include "kinema/training/loop.h"
#include "kinema/training/profile_window.h"
#include "kinema/training/schedule.h"

/// A training run beside its model, step and data: how long it is, what it saves, measures and
/// writes.
namespace kinema::resolve {

struct TrainingSettings {
  int64_t seed = 0;
  bool reuse_batch = false;            // every step trains on the first batch
  bool save_optimizer = true;          // checkpoints hold the optimizer's state
  bool background_checkpoints = true;  // steps go on while a checkpoint is written
  bool debug_nans = false;
  bool debug_sharding = false;
  double caption_dropout = 0;
  bool compiled_step = false;   // the step comes from a file, and so has one shape of batch
  bool sizes_only = false;      // of the pretrained network only the sizes are taken
  bool init_optimizer = false;  // init_from gives the optimizer's state too
  bool one_reader = false;      // one process reads a checkpoint and sends it to the others
  int64_t accumulation = 1;     // batches that make a step
  std::string optimizer;        // its name
  bool trace_kernels = false;   // for the profiler
  bool evaluates = false;       // evaluations compute a loss
  std::string evaluation_data;  // what an error calls their samples
};
TrainingSettings training_settings(const config::Config& config);

/// When the run saves; one of epochs, whose number of steps is not known yet, once.
checkpoints::SavedSteps saved_steps(const config::Config& config, const Start& start);

/// How samples are read ahead; without the batch's size and the position.
data::PrefetchOptions prefetch_options(const config::Config& config);

/// What decides the losses of an evaluation.
training::EvaluationOptions evaluation_options(const config::Config& config,
                                               const model_source::Expert& expert);

/// Which axes of the mesh divide a batch of so many samples.
std::vector<std::string> batch_axes(const config::Config& config, const mesh::Placement& place,
                                    int64_t samples);

/// How long a run is, once its data is known.
struct RunLength {
  training::LoopOptions loop;  // without first_step and peak_tflops
  training::Schedule schedule;
  std::map<std::string, std::string> record;  // the settings that checkpoints keep
  std::vector<std::string> notes;             // on what changed since the run began
};
/// `known`: the configuration with what devices and model decide (resolved_config). `samples`: of
/// the data set, `batch`: of a step.
RunLength run_length(const config::Config& known, const Start& start, int64_t samples,
                     int64_t batch);

/// The settings with what devices, data and model decide in the place of values that mean "as it
/// comes" (resolved_config).
Settings with_resolved(const Settings& settings, const TrainingStep& step,
                       const model_source::Expert& expert);

/// Throws an Error where a checkpoint that is resumed was made with settings that must be the same.
void check_resumes(const Start& start, const config::Config& known);

/// Throws an Error where videos of the run ask for more sampler steps than the schedule has.
void check_sampler(const config::Config& config, const networks::Network& network);

/// The scheduler_config.json that checkpoints keep, which says how the network is sampled: the
/// pretrained model's; without one, that of a diffusion. Empty where there is neither.
std::string scheduler_config(const config::Config& config, const networks::Network& network,
                             const training::ObjectiveOptions& objective);

/// What goes on beside the steps.
struct LoopSettings {
  std::optional<training::ProfileOptions> profile;
  std::filesystem::path profile_folder;
  bool transfer_guard = false;  // transfers that nothing asked for are errors
  /// The run stops after this many evaluations without a lower loss; nothing: it never does.
  std::optional<int64_t> evaluations_without_gain;

  /// Whether evaluations so far ask the run to stop.
  bool is_over(const training::Gain& gain) const {
    return evaluations_without_gain && gain.is_over(*evaluations_without_gain);
  }
};
LoopSettings loop_settings(const config::Config& config, const std::filesystem::path& run,
                           const Job& job);

/// What a run writes of itself; empty paths: nothing.
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

/// When a run makes videos of its prompts.
struct VideoMoments {
  bool any = false;
  bool at_evaluations = false;
  bool compares = false;  // those before the training with those after it
};
VideoMoments video_moments(const config::Config& config);

/// Checks all that needs neither data nor model: that the run's files can be written, and prompts
/// read. Tells the job what looks wrong.
void check_before_loading(const Settings& settings, const std::filesystem::path& run_folder,
                          const Job& job);

/// Writes the run's config.yml and flags.json: `record` with the boundary of the experts that are
/// trained, and the flags of `used`.
void write_run_files(const Settings& record, const Settings& used,
                     const model_source::Expert& expert, const std::filesystem::path& run,
                     bool one_device, const Job& job);

}  // namespace kinema::resolve
