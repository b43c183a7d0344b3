#pragma once

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/config/lora.h"
#include "kinema/core/error.h"
#include "kinema/job/job.h"
#include "kinema/model_source/text_adapters.h"
#include "kinema/sample/pipeline_folder.h"

/// Selects the model that a command samples or evaluates: a run's checkpoint or the named model.
namespace kinema::model_source {

/// The model of a run, or the pretrained one.
struct SelectedModel {
  sample::PipelineFolder folder;
  std::filesystem::path output;  // the default folder of videos
  std::optional<int64_t> step;   // of the run's checkpoint
  bool average = false;          // its EMA weights are used
  /// Of a run that trains an adapter: its folder at the index of its transformer (1: the low-noise
  /// one), and the entry of lora_config from which it started.
  std::array<std::filesystem::path, 2> adapters = {};
  std::optional<config::LoraChoice> adapter_start = {};
  TextAdapters text_adapters = {};

  /// The folder of the run's checkpoint; empty without one.
  std::filesystem::path checkpoint() const {
    return step ? folder.folder : std::filesystem::path();
  }
  bool has_adapter() const { return !adapters[0].empty() || !adapters[1].empty(); }
};

/// True if a selected checkpoint was removed, or is being removed.
bool was_removed(const std::filesystem::path& checkpoint);

/// True if the configuration names a run with checkpoints; then the pretrained transformer is not
/// read.
bool has_checkpoint(const config::Config& config);
/// True if that run trains an adapter, words or a ControlNet, so that the pretrained transformer is
/// needed too.
bool has_adapter(const config::Config& config);

/// Throws an Error if the named run has no checkpoint, with the most similar name. If output_dir
/// contains no runs, run_name only names the folder of videos: returns a log line about that.
std::vector<std::string> check_run(const config::Config& config);

/// The newest (or the requested) checkpoint of the run, else the pretrained folder. If a running
/// training removes the newest one meanwhile, the search is repeated.
SelectedModel find_model(const config::Loaded& loaded, const Job& job);

/// Thrown in all processes if a checkpoint was removed before one of them could read it.
class CheckpointRemoved : public Error {
 public:
  explicit CheckpointRemoved(const std::filesystem::path& checkpoint)
      : Error(fmt::format("[generate] the checkpoint {} was removed while it was read, probably by "
                          "a running training",
                          checkpoint.string())) {}
};

/// Returns the result of `use`, which sets its argument to the checkpoint that it reads. It is
/// called again if it failed because a running training removed that checkpoint (with several
/// processes: if it threw CheckpointRemoved), unless a step was requested.
template <typename Use>
auto with_newest_checkpoint(const config::Loaded& loaded, const Job& job, const Use& use) {
  const bool any_step = loaded.config.generate.generate_checkpoint_step < 0;
  for (std::filesystem::path last;;) {
    std::filesystem::path checkpoint;
    try {
      return use(checkpoint);
    } catch (const Error& error) {
      const bool removed = job.world().is_alone()
                               ? was_removed(checkpoint)
                               : dynamic_cast<const CheckpointRemoved*>(&error) != nullptr;
      if (!any_step || !removed || checkpoint == last) {
        throw;
      }
    }
    last = checkpoint;
    if (job.world().is_first()) {
      job.notice(
          fmt::format("{} was removed by a running training: the newest checkpoint is used instead",
                      checkpoint.string()));
    }
  }
}

/// A checkpoint, which need not exist yet, and the kind of its run.
struct CheckpointModel {
  std::filesystem::path folder;
  std::optional<config::ModelType> model_type;  // nothing for an old checkpoint
  config::TrainExpert train_expert = config::TrainExpert::NONE;
  bool average = false;  // it has EMA weights
  bool adapter = false;  // it is an adapter of a pretrained transformer
  bool words = false;    // it is words for a pretrained pipeline
  bool control = false;  // it is a ControlNet of a pretrained network
  std::optional<config::LoraChoice> adapter_start = {};  // SelectedModel::adapter_start
  std::string part = "transformer";                      // the folder of its only network
  std::optional<double> boundary_ratio = {};             // with which both experts were trained
};

/// The configuration that samples the run's checkpoint of this step, and that checkpoint's folder.
config::Loaded with_checkpoint_step(config::Loaded loaded, int64_t step);
std::filesystem::path checkpoint_folder(const config::Config& config, int64_t step);

/// The checkpoint as a pipeline, with EMA weights if use_ema is set. Parts that the run does not
/// train are those of the pipeline with which it started: the other expert, and CLIP. Throws an
/// Error if the other expert does not exist.
SelectedModel model_of_checkpoint(const config::Config& config, const std::filesystem::path& run,
                                  const CheckpointModel& model);
/// The same for a checkpoint of a run with this configuration, which gives the model type.
SelectedModel model_of_run(const config::Config& config, const std::filesystem::path& run,
                           CheckpointModel model);

}  // namespace kinema::model_source
