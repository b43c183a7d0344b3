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
#include "kinema/resolve/training_step.h"
#include "kinema/training/checkpoint.h"
#include "kinema/training/schedule.h"

/// Where a training begins, and what is said and refused when that is not at nothing.
namespace kinema::resolve {

/// The checkpoint that a run goes on from, or whose weights it begins with.
struct Start {
  std::filesystem::path folder;     // empty: the run begins
  training::TrainState saved = {};  // of a run that begins, nothing
  std::filesystem::path init = {};  // of init_from, where the run begins with it
  std::set<int64_t> skipped = {};   // newer checkpoints of the run, which are damaged

  bool resumes() const { return !folder.empty(); }
};

/// The newest valid checkpoint of the run in `run`, those that are skipped are named; where it has
/// none, that of resume_from, or init_from's. Throws an Error where these name none.
Start find_start(const config::Config& config, const std::filesystem::path& run, const Job& job);

/// `config` with what devices, data and model decide in the place of what means "as it comes":
/// what a checkpoint keeps and a resumed run is compared by.
config::Config resolved_config(const config::Config& config, const TrainingStep& step,
                               const model_source::Expert& expert);

/// The configuration with the length of the learning rate schedule: a learning_rate_schedule_steps
/// of -1 is the length that the run began with, so a run with a larger max_train_steps keeps the
/// rate that it ended with; where the run begins it is max_train_steps. An lr_decay_fraction of -1
/// is what lr_schedule says.
config::Config with_schedule(config::Config resolved, const Start& start);

/// Throws an Error where a run that is made longer would make steps that change nothing: its
/// schedule ends at a rate of 0.
void check_rate(const training::Schedule& schedule, const Start& start, int64_t max_steps);

/// Which checkpoints stay. A run from before checkpoints_to_keep had a default keeps all of them
/// unless the key is given.
checkpoints::Keep keep_of(const config::Loaded& loaded, const Start& start);

/// What a user should know of a run that goes on: keys that changed, moments that begin at zero, a
/// schedule that is shorter or longer than the run.
std::vector<std::string> resume_lines(const Start& start, const config::Config& resolved);

}  // namespace kinema::resolve
