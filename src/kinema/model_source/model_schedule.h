#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/io/json.h"
#include "kinema/networks/network.h"
#include "kinema/sample/scheduler_config.h"

/// How the network that a configuration names was trained, as its files say it.
namespace kinema::model_source {

/// A pretrained network's own schedule.
struct ModelSchedule {
  schedulers::ScheduleConfig schedule;
  /// The same as a scheduler_config.json.
  io::Json file;
};

/// Where it is said how a network is sampled.
struct ScheduleFile {
  std::filesystem::path path;  // empty: nowhere
  std::string class_name;      // that model_index.json names in place of the file's; empty: none
};

/// The scheduler_config.json of the checkpoint that the configuration names as its network, of the
/// pipeline that it names, or beside its single file: the first that is there.
ScheduleFile schedule_file_of(const config::Config& config);

/// What the file says, with what the network's own file says on top (weights::objective_marks);
/// where there is none, as the family learned.
///
/// Throws an Error for a scheduler that is not supported, and for a model that is sampled but not
/// trained (EDM, inverted levels, prediction of samples).
ModelSchedule read_model_schedule(const ScheduleFile& file,
                                  const std::filesystem::path& network_file,
                                  const networks::Network& network);

/// `schedule` with what the network's own file says of its training: v-prediction and a last
/// timestep that is noise alone, which steps begin with where no file says another spacing
/// (`is_said`: one does).
schedulers::ScheduleConfig with_marks(schedulers::ScheduleConfig schedule,
                                      const std::filesystem::path& network, bool is_said);

/// The scheduler_config.json beside a single file of a model; empty where there is none.
std::filesystem::path scheduler_config_beside(const std::filesystem::path& model);
/// That of the run's checkpoint in which a network's folder lies; empty for other folders.
std::filesystem::path scheduler_config_of_checkpoint(const std::filesystem::path& network);

/// What prediction_type asks for.
schedulers::Prediction prediction(config::PredictionType given);
/// The line for a prediction that a key gave and the model's files contradict.
std::string other_prediction(schedulers::Prediction used, schedulers::Prediction own);

/// Lines about a network's file: what it says of its training, and tensors that no model reads.
std::vector<std::string> file_notices(const std::filesystem::path& network);

}  // namespace kinema::model_source
