#include "kinema/runs/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "kinema/config/buckets.h"
#include "kinema/core/error.h"
#include "kinema/runs/continued_run.h"
#include "kinema/runs/network.h"

namespace kinema::runs {
namespace {

/// An integer of a checkpoint's settings.
std::optional<int64_t> saved_number(const training::TrainState& saved, const std::string& key) {
  const std::string text = saved.setting(key);
  int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && !text.empty() ? std::optional(out) : std::nullopt;
}

/// What process 0 finds, which alone reads every byte. Throws an Error in a process that does not
/// see it.
training::Found newest_of(const training::CheckpointFolder& checkpoints, world::World& world) {
  training::Found found;
  if (world.is_first()) {
    found = checkpoints.newest();
  }
  const std::string step =
      world.talk().broadcast(found.step ? std::to_string(*found.step) : "",
                             {.what = "the newest checkpoint", .seconds = 3600});
  if (!world.is_first() && !step.empty()) {
    found.step = std::stoll(step);
    found.folder = checkpoints.path(*found.step);
    check(std::filesystem::is_directory(found.folder),
          "[train] process 0 goes on from {}, which {} does not see\n  the run folder must lie on "
          "a disk that all hosts share, or in a store",
          found.folder.string(), world.name_of(world.rank()));
  }
  return found;
}

/// Of arXiv:2404.06395: ten percent of the steps are enough.
constexpr double kDecayOfWsd = 0.1;

}  // namespace

Start find_start(const config::Config& config, const std::filesystem::path& run, const Job& job) {
  const training::CheckpointFolder checkpoints(config::checkpoints_folder(config, run));
  training::Found found = newest_of(checkpoints, job.world());
  for (const training::Damage& each : found.damaged) {
    job.notice(fmt::format("{} is skipped: {}", each.folder.string(), each.reason));
  }
  if (found.step) {
    Start start{.folder = found.folder, .saved = training::read_train_state(found.folder)};
    for (const training::Damage& each : found.damaged) {
      start.skipped.insert(*training::step_of(each.folder.filename().string()));
    }
    return start;
  }
  check(found.damaged.empty(),
        "[train] the run's checkpoints are all damaged: nothing is begun anew over them\n  {}: {}; "
        "bring it back whole, remove the folder, or take another run_name",
        found.damaged.empty() ? "" : found.damaged.front().folder.string(),
        found.damaged.empty() ? "" : found.damaged.front().reason);
  if (!config.run.init_from.empty()) {
    check(config.run.resume_from.empty(),
          "[config] init_from begins a run at step 0, resume_from goes on with another: set one");
    return {.folder = {}, .init = init_checkpoint(config.run)};
  }
  if (config.run.resume_from.empty()) {
    return {};
  }
  const std::filesystem::path other = checkpoint_of(config.run.resume_from);
  return {.folder = other, .saved = training::read_train_state(other)};
}

config::Config resolved_config(const config::Config& config, const TrainingStep& step,
                               const Expert& expert) {
  config::Config out = config;
  out.optimizer.global_batch_size = step.samples;
  out.optimizer.min_timestep = expert.min_timestep;
  out.optimizer.max_timestep = expert.max_timestep;
  // Decides whose turn a step is; of one expert the timesteps say it.
  out.generate.boundary_ratio =
      expert.is_both() ? *expert.boundary_ratio : config::GenerateConfig{}.boundary_ratio.value;
  if (out.data.dataset_type == config::DatasetType::TF ||
      out.data.dataset_type == config::DatasetType::GRAIN) {
    out.data.dataset_type = config::DatasetType::TFRECORD;  // other names of it
  }
  if (!config::read_buckets(config.data).on) {
    out.data.buckets = {"[]"};
  }
  if (!step.adapters.empty()) {
    out.model.lora_rank = step.adapters.front().config.rank;
    out.model.lora_alpha = step.adapters.front().config.alpha;
  }
  set_sizes(out.model, step.network);
  return out;
}

void resolve_schedule(config::Config& resolved, const Start& start) {
  int64_t& steps = resolved.optimizer.learning_rate_schedule_steps;
  if (steps < 0) {
    steps = saved_number(start.saved, "learning_rate_schedule_steps")
                .value_or(resolved.optimizer.max_train_steps);
  }
  // Behind the rise of a line or half a cosine, -1 stays: its length is not a share of decimals.
  double& decay = resolved.optimizer.lr_decay_fraction;
  const config::LrSchedule shape = resolved.optimizer.lr_schedule;
  if (decay < 0 && shape == config::LrSchedule::CONSTANT) {
    decay = 0;
  } else if (decay < 0 && shape == config::LrSchedule::WSD) {
    decay = kDecayOfWsd;
  } else {
    decay = std::max(decay, -1.0);
  }
}

void check_rate(const training::Schedule& schedule, const Start& start, int64_t max_steps) {
  const std::optional<int64_t> before = saved_number(start.saved, "max_train_steps");
  const bool is_longer = before && *before < max_steps && start.saved.step < max_steps;
  const bool falls_to_zero = schedule.learning_rate > 0 && schedule(schedule.steps) == 0;
  check(
      !is_longer || !falls_to_zero || schedule.steps >= max_steps,
      "[train] the run's learning rate falls to 0 at step {}, where its schedule ends: steps from "
      "there up to {} would change nothing\n  learning_rate_schedule_steps={} makes the schedule "
      "as "
      "long, final_lr_fraction=0.1 goes on at a tenth of the rate",
      schedule.steps, max_steps, max_steps);
}

training::Keep keep_of(const config::Loaded& loaded, const Start& start) {
  const config::RunConfig& run = loaded.config.run;
  const bool is_older = start.resumes() && !start.saved.settings.contains("max_train_steps");
  return {.newest = is_older && !run.checkpoints_to_keep.given ? 0 : run.checkpoints_to_keep.value,
          .period = run.checkpoint_keep_period,
          .damaged = start.skipped};
}

std::vector<std::string> resume_lines(const Start& start, const config::Config& resolved) {
  std::vector<std::string> out;
  if (!start.resumes()) {
    return out;
  }
  for (const std::string& change :
       config::changes(start.saved.settings, config::record_of(resolved))) {
    out.push_back("changed: " + change);
  }
  if (!training::has_optimizer(start.folder)) {
    out.push_back(
        "the checkpoint holds no optimizer (save_optimizer=false): its moments begin at zero");
  }
  const config::OptimizerConfig& o = resolved.optimizer;
  const std::optional<int64_t> steps = saved_number(start.saved, "max_train_steps");
  if (steps && steps != o.max_train_steps && o.learning_rate_schedule_steps != o.max_train_steps &&
      saved_number(start.saved, "learning_rate_schedule_steps") == o.learning_rate_schedule_steps) {
    out.push_back(
        fmt::format("the learning rate keeps the schedule of {} steps that the run began with; "
                    "learning_rate_schedule_steps={} makes it as long as the run",
                    o.learning_rate_schedule_steps, o.max_train_steps));
  }
  return out;
}

}  // namespace kinema::runs
