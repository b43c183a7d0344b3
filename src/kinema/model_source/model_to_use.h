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

/// Which model a command samples or evaluates: a run's checkpoint, or the one that is named.
namespace kinema::model_source {

/// The model of a run, or the pretrained one.
struct ModelToUse {
  sample::PipelineFolder folder;
  std::filesystem::path output;  // where videos go by default
  std::optional<int64_t> step;   // of the run whose checkpoint it is
  /// Of a run that trains an adapter: its folder, in the place of the transformer that it is for
  /// (1: the low-noise one), and the entry of lora_config that it began as.
  std::array<std::filesystem::path, 2> adapters = {};
  std::optional<config::LoraChoice> adapter_start = {};
  TextAdapters text_adapters = {};

  /// The folder of that checkpoint; empty without one.
  std::filesystem::path checkpoint() const {
    return step ? folder.folder : std::filesystem::path();
  }
  bool has_adapter() const { return !adapters[0].empty() || !adapters[1].empty(); }
};

/// Whether a checkpoint that was chosen is gone by now, or is being removed.
bool was_removed(const std::filesystem::path& checkpoint);

/// True when a run was named that has checkpoints: the pretrained transformer is not read then.
bool has_checkpoint(const config::Config& config);
/// True when that run trains an adapter, so that the pretrained transformer is read all the same.
bool has_adapter(const config::Config& config);

/// Throws an Error where a run was named that has no checkpoint, naming the nearest one. Where
/// output_dir has no runs at all the name only says where videos go: returns a line about that.
std::vector<std::string> check_run(const config::Config& config);

/// The newest (or the given) checkpoint of the run, else the pretrained folder. A newest one that a
/// training removes meanwhile is looked for again.
ModelToUse find_model(const config::Loaded& loaded, const Job& job);

/// Several processes read a checkpoint that was removed for one of them; thrown in all.
class CheckpointRemoved : public Error {
 public:
  explicit CheckpointRemoved(const std::filesystem::path& checkpoint)
      : Error(fmt::format("[generate] the checkpoint {} was removed while it was read, as by a "
                          "training that goes on",
                          checkpoint.string())) {}
};

/// What `use` returns, called again where it failed because a training that goes
/// on removed the checkpoint that `use` had found as the newest, and set; in several processes,
/// where it threw CheckpointRemoved. Not where a step was asked for.
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
          fmt::format("{} was removed by a training that goes on: the newest checkpoint is taken "
                      "again",
                      checkpoint.string()));
    }
  }
}

/// A checkpoint, which need not be written, and what its run trains.
struct CheckpointModel {
  std::filesystem::path folder;
  std::optional<config::ModelType> model_type;  // of an old checkpoint, nothing
  config::TrainExpert train_expert = config::TrainExpert::NONE;
  bool average = false;                                  // it has averaged weights
  bool adapter = false;                                  // it is one of a pretrained transformer
  std::optional<config::LoraChoice> adapter_start = {};  // ModelToUse::adapter_start
  std::string part = "transformer";                      // of one network: its folder
  std::optional<double> boundary_ratio = {};             // that both experts were trained with
};

/// What a run of this configuration makes of video or text, as its checkpoints say it.
config::ModelType model_type(const config::Config& config);
/// Whether videos are made with averaged weights where a run keeps such.
bool samples_average(const config::Config& config);

/// The configuration that samples the checkpoint of this step of its run; its folder.
config::Loaded with_checkpoint_step(config::Loaded loaded, int64_t step);
std::filesystem::path checkpoint_folder(const config::Config& config, int64_t step);

/// The checkpoint as a pipeline, with the averaged weights where use_ema wants them. What a run
/// does not train comes from the pipeline that it began with: the other expert, and CLIP. Throws an
/// Error where the other expert is not there.
ModelToUse model_of_checkpoint(const config::Config& config, const std::filesystem::path& run,
                               const CheckpointModel& model);

}  // namespace kinema::model_source
