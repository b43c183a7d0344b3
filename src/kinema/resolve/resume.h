#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/config/resume.h"
#include "kinema/job/job.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/optimizers/schedule.h"
#include "kinema/resolve/training_step.h"
#include "kinema/training/checkpoint.h"

/// From where a training starts: from scratch, from other weights or from a checkpoint; the checks
/// and log lines of a resumed run.
namespace kinema::resolve {

/// The checkpoint from which a run resumes, or whose weights it starts with.
struct Start {
  std::filesystem::path folder;     // empty: a new run
  training::TrainState saved = {};  // empty for a new run
  std::filesystem::path init = {};  // of init_from, for a new run
  std::set<int64_t> skipped = {};   // steps of the run's newer checkpoints, which are corrupt

  bool resumes() const { return !folder.empty(); }
};

/// The newest valid checkpoint of the run in `run`, with log lines for skipped ones; without one,
/// that of resume_from or init_from. Throws an Error if these keys name none.
Start find_start(const config::Config& config, const std::filesystem::path& run, const Job& job);

/// `config` with the values that defaults get from devices, data and model: checkpoints store it,
/// and a resumed run is compared with it.
config::Config resolved_config(const config::Config& config, const TrainingStep& step,
                               const model_source::Expert& expert);

/// The configuration with the length of the learning rate schedule. A learning_rate_schedule_steps
/// of -1 becomes max_train_steps in a new run, and the saved length in a resumed run, so a larger
/// max_train_steps continues at the final rate. An lr_decay_fraction of -1 becomes that of
/// lr_schedule.
config::Config with_schedule(config::Config resolved, const Start& start);

/// Throws an Error if an extended run would train at a rate of 0, after the end of its schedule.
void check_rate(const optimizers::Schedule& schedule, const Start& start, int64_t max_steps);

/// The checkpoints to keep. A run that is older than the default of checkpoints_to_keep keeps all
/// of them unless the key is given.
checkpoints::Keep checkpoint_keep(const config::Loaded& loaded, const Start& start);

/// Log lines of a resumed run: changed keys, moments that start at zero, a schedule that is shorter
/// or longer than the run.
std::vector<std::string> resume_lines(const Start& start, const config::Config& resolved);

}  // namespace kinema::resolve
