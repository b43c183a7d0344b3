#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/io/json.h"
#include "kinema/networks/network.h"
#include "kinema/sample/scheduler_config.h"

/// The noise schedule and prediction type that a pretrained network was trained with.
namespace kinema::model_source {

/// A pretrained network's schedule.
struct ModelSchedule {
  schedulers::ScheduleConfig schedule;
  /// The schedule as a scheduler_config.json.
  io::Json file;
};

/// The file with a network's sampling schedule.
struct ScheduleFile {
  std::filesystem::path path;  // empty: none
  std::string class_name;      // from model_index.json, overrides the file's; empty: none
};

/// The first scheduler_config.json that exists: of the checkpoint that the configuration names as
/// its network, of its pipeline, or next to its single file.
ScheduleFile schedule_file_of(const config::Config& config);

/// The schedule of the file, with changes from markers in the network's own file
/// (model_files::objective_marks); without a file, the family's default.
///
/// Throws an Error for a scheduler that is not supported, and for a model that is sampled but not
/// trained (EDM, inverted levels, prediction of samples).
ModelSchedule read_model_schedule(const ScheduleFile& file,
                                  const std::filesystem::path& network_file,
                                  const networks::Network& network);

/// The schedule of the model that `plan` builds a denoising step of: its file's, or by its name
/// that of a release which is not on this machine.
schedulers::ScheduleConfig planned_schedule(const config::Config& config,
                                            const networks::Network& network);

/// `schedule` with the markers in the network's own file: EDM, v-prediction, and a last timestep of
/// pure noise, which then is the first sampling step unless a file sets the spacing (`is_said`).
schedulers::ScheduleConfig with_marks(schedulers::ScheduleConfig schedule,
                                      const std::filesystem::path& network, bool is_said);

/// The scheduler_config.json next to a single model file; empty if there is none.
std::filesystem::path adjacent_scheduler_config(const std::filesystem::path& model);
/// The scheduler_config.json of the run's checkpoint that contains a network's folder; empty for
/// other folders.
std::filesystem::path scheduler_config_of_checkpoint(const std::filesystem::path& network);

/// The value of prediction_type.
schedulers::Prediction prediction(config::PredictionType given);
/// A log line for a prediction_type that contradicts the model's files.
std::string other_prediction(schedulers::Prediction used, schedulers::Prediction own);

/// Log lines about a network's file: the markers of its training, and tensors that no model reads.
std::vector<std::string> file_notices(const std::filesystem::path& network);

}  // namespace kinema::model_source
