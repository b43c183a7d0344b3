#include "kinema/resolve/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "kinema/config/buckets.h"
#include "kinema/core/error.h"
#include "kinema/model_source/continued_run.h"
#include "kinema/model_source/network.h"

namespace kinema::resolve {
namespace {

/// An integer setting of a checkpoint.
std::optional<int64_t> saved_number(const training::TrainState& saved, const std::string& key) {
  const std::string text = saved.setting(key);
  int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && !text.empty() ? std::optional(out) : std::nullopt;
}

/// The newest checkpoint. Only process 0 reads every byte, in the folder that it writes to. Throws
/// an Error in a process that cannot see the folder.
checkpoints::Found newest_of(const checkpoints::CheckpointFolder& checkpoints,
                             world::World& world) {
  checkpoints::Found found;
  if (world.is_first()) {
    checkpoints.clean();
    found = checkpoints.newest();
  }
  const std::string step =
      world.communicator().broadcast(found.step ? std::to_string(*found.step) : "",
                                     {.what = "the newest checkpoint", .seconds = 3600});
  if (!world.is_first() && !step.empty()) {
    found.step = std::stoll(step);
    found.folder = checkpoints.path(*found.step);
    check(std::filesystem::is_directory(found.folder),
          "[train] process 0 resumes from {}, which {} does not see\n"
          "  the run folder must be on a disk that all hosts share, or in a store",
          found.folder.string(), world.name_of(world.rank()));
  }
  return found;
}

}  // namespace

Start find_start(const config::Config& config, const std::filesystem::path& run, const Job& job) {
  const checkpoints::CheckpointFolder checkpoints(config::checkpoints_folder(config, run));
  checkpoints::Found found = newest_of(checkpoints, job.world());
  for (const checkpoints::CorruptCheckpoint& each : found.corrupt) {
    job.notice(fmt::format("{} is skipped: {}", each.folder.string(), each.reason));
  }
  if (found.step) {
    Start start{.folder = found.folder, .saved = training::read_train_state(found.folder)};
    for (const checkpoints::CorruptCheckpoint& each : found.corrupt) {
      start.skipped.insert(*checkpoints::parse_step(each.folder.stem().string()));
    }
    return start;
  }
  check(found.corrupt.empty(),
        "[train] the run's checkpoints are all corrupt: refusing to start over\n"
        "  {}: {}; restore it, remove the folder, or use another run_name",
        found.corrupt.empty() ? "" : found.corrupt.front().folder.string(),
        found.corrupt.empty() ? "" : found.corrupt.front().reason);
  if (!config.run.init_from.empty()) {
    check(
        config.run.resume_from.empty(),
        "[config] init_from starts a run at step 0, resume_from resumes another run: set only one");
    return {.folder = {}, .init = model_source::init_checkpoint(config.run)};
  }
  if (config.run.resume_from.empty()) {
    return {};
  }
  const std::filesystem::path other = model_source::checkpoint_of(config.run.resume_from);
  return {.folder = other, .saved = training::read_train_state(other)};
}

config::Config resolved_config(const config::Config& config, const TrainingStep& step,
                               const model_source::Expert& expert) {
  config::Config out = config;
  out.optimizer.global_batch_size = step.samples;
  out.optimizer.min_timestep = expert.min_timestep;
  out.optimizer.max_timestep = expert.max_timestep;
  // Selects the expert of a step; a single expert is given by its timesteps.
  out.generate.boundary_ratio =
      expert.is_both() ? *expert.boundary_ratio : config::GenerateConfig{}.boundary_ratio.value;
  if (out.data.dataset_type == config::DatasetType::TF ||
      out.data.dataset_type == config::DatasetType::GRAIN) {
    out.data.dataset_type = config::DatasetType::TFRECORD;  // other names of TFRECORD
  }
  if (!config::read_buckets(config.data).on) {
    out.data.buckets = {"[]"};
  }
  if (!step.adapters.empty()) {
    out.model.lora_rank = step.adapters.front().config.rank;
    out.model.lora_alpha = step.adapters.front().config.alpha;
  }
  model_source::set_sizes(out.model, step.network);
  return out;
}

config::Config with_schedule(config::Config resolved, const Start& start) {
  int64_t& steps = resolved.optimizer.learning_rate_schedule_steps;
  if (steps < 0) {
    steps = saved_number(start.saved, "learning_rate_schedule_steps")
                .value_or(resolved.optimizer.max_train_steps);
  }
  // Without a fixed fraction, -1 stays: linear and cosine decay last from the warmup to the end.
  resolved.optimizer.lr_decay_fraction = config::decay_fraction(resolved.optimizer);
  return resolved;
}

void check_rate(const optimizers::Schedule& schedule, const Start& start, int64_t max_steps) {
  const std::optional<int64_t> before = saved_number(start.saved, "max_train_steps");
  const bool is_longer = before && *before < max_steps && start.saved.step < max_steps;
  const bool falls_to_zero = schedule.learning_rate > 0 && schedule(schedule.steps) == 0;
  check(!is_longer || !falls_to_zero || schedule.steps >= max_steps,
        "[train] the run's learning rate falls to 0 at step {}, at the end of its schedule: later "
        "steps up to {} would change nothing\n"
        "  learning_rate_schedule_steps={} extends the schedule, final_lr_fraction=0.1 continues "
        "at a tenth of the rate",
        schedule.steps, max_steps, max_steps);
}

checkpoints::Keep checkpoint_keep(const config::Loaded& loaded, const Start& start) {
  const config::RunConfig& run = loaded.config.run;
  const bool is_older = start.resumes() && !start.saved.settings.contains("max_train_steps");
  return {.newest = is_older && !run.checkpoints_to_keep.given ? 0 : run.checkpoints_to_keep.value,
          .period = run.checkpoint_keep_period,
          .corrupt = start.skipped};
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
        "the checkpoint has no optimizer state (save_optimizer=false): the moments start at zero");
  }
  const config::OptimizerConfig& o = resolved.optimizer;
  if (o.ema_decay > 0 &&
      !training::has_average(start.folder, training::weights_part(start.folder))) {
    out.emplace_back(
        "the checkpoint has no EMA weights (ema_decay was 0): they start as the current weights");
  }
  const std::optional<int64_t> steps = saved_number(start.saved, "max_train_steps");
  if (steps && steps != o.max_train_steps && o.learning_rate_schedule_steps != o.max_train_steps &&
      saved_number(start.saved, "learning_rate_schedule_steps") == o.learning_rate_schedule_steps) {
    out.push_back(
        fmt::format("the learning rate keeps the run's original schedule of {} steps; "
                    "learning_rate_schedule_steps={} extends it to the whole run",
                    o.learning_rate_schedule_steps, o.max_train_steps));
  }
  return out;
}

}  // namespace kinema::resolve
