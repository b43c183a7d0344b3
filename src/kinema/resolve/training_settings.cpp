#include "kinema/resolve/training_settings.h"

#include <system_error>
#include <utility>

#include "kinema/config/resume.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/io/json.h"
#include "kinema/mesh/batch.h"
#include "kinema/metrics/metrics.h"
#include "kinema/model_source/model_paths.h"
#include "kinema/model_source/model_schedule.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/resolve/compiler_flags.h"
#include "kinema/resolve/device.h"
#include "kinema/resolve/generation.h"
#include "kinema/resolve/prompts.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;

/// The timesteps of timesteps_list that are trained, and invalid ones, which are rejected where
/// they are used.
std::vector<int64_t> trained_timesteps(const config::Config& config,
                                       const model_source::Expert& expert) {
  std::vector<int64_t> out;
  for (const int64_t t : config.data.timesteps_list) {
    const auto value = static_cast<double>(t);
    const bool exists = value >= 0 && value <= 1000;
    if (!exists || (value >= expert.min_timestep && value <= expert.max_timestep)) {
      out.push_back(t);
    }
  }
  return out;
}

/// max_train_steps, or the steps of num_train_epochs passes over `samples`.
int64_t steps_of(const config::OptimizerConfig& config, int64_t samples, int64_t batch) {
  if (config.max_train_steps > 0) {
    return config.max_train_steps;
  }
  constexpr int64_t kMost = int64_t{1} << 40;
  check(samples < kMost && config.num_train_epochs < kMost / samples,
        "[train] max_train_steps is -1, and the data has no end that num_train_epochs could count");
  return (config.num_train_epochs * samples + batch - 1) / batch;
}

optimizers::Schedule::DecayShape fall_of(config::LrSchedule schedule) {
  using enum optimizers::Schedule::DecayShape;
  switch (schedule) {
    case config::LrSchedule::COSINE:
    case config::LrSchedule::COSINE_WITH_RESTARTS:
      return COSINE;
    case config::LrSchedule::POLYNOMIAL:
      return POLYNOMIAL;
    case config::LrSchedule::REX:
      return REX;
    default:
      return LINE;
  }
}

/// `samples`: per step, for scale_lr.
optimizers::Schedule schedule_of(const config::Config& config, int64_t samples) {
  const config::OptimizerConfig& o = config.optimizer;
  const bool restarts = o.lr_schedule == config::LrSchedule::COSINE_WITH_RESTARTS;
  using enum optimizers::Schedule::RelativeStep;
  const bool is_relative = o.optimizer == config::Optimizer::ADAFACTOR && o.adafactor_relative_step;
  return {.learning_rate = o.learning_rate * (o.scale_lr ? static_cast<double>(samples) : 1.0),
          .steps = schedule_steps(config),
          .warmup_fraction = o.warmup_steps_fraction,
          .decay_fraction = o.lr_decay_fraction,
          .final_fraction = o.final_lr_fraction,
          .decay_shape = fall_of(o.lr_schedule),
          .power = o.lr_power,
          .cycles = restarts ? o.lr_num_cycles : 1,
          .cycle_growth = restarts ? o.lr_cycle_growth : 1.0,
          .cycle_peak = restarts ? o.lr_cycle_peak : 1.0,
          .relative_step = !is_relative              ? NONE
                           : o.adafactor_warmup_init ? WARMUP
                                                     : PLAIN};
}

/// `given`, or `fallback` if it is empty.
fs::path path_or(const std::string& given, const fs::path& fallback) {
  return given.empty() ? fallback : fs::path(given);
}

bool has_evaluation_samples(const config::RunConfig& run) {
  return !run.eval_data_dir.empty() || run.eval_split > 0;
}

}  // namespace

TrainingSettings training_settings(const config::Config& config) {
  const config::RunConfig& run = config.run;
  const bool videos_alone = run.enable_generate_video_for_eval && !has_evaluation_samples(run);
  return {.seed = run.seed,
          .reuse_batch = config.data.reuse_example_batch,
          .save_optimizer = run.save_optimizer,
          .background_checkpoints = run.background_checkpoints,
          .debug_nans = config.runtime.debug_nans,
          .debug_sharding = config.parallel.debug_sharding,
          .caption_dropout = config.optimizer.caption_dropout,
          .compiled_step = !run.compiled_step.empty(),
          .sizes_only = config.model.train_new_flux || config.model.train_new_unet,
          .init_optimizer = run.init_optimizer,
          .one_reader = run.enable_single_replica_ckpt_restoring,
          .accumulation = config.optimizer.gradient_accumulation_steps,
          .optimizer = std::string(config::word_of(config.optimizer.optimizer)),
          .trace_kernels = run.enable_profiler,
          .evaluates = run.eval_every > 0 && !videos_alone,
          .evaluation_data = run.eval_split > 0 ? "eval_split" : run.eval_data_dir};
}

checkpoints::SavedSteps saved_steps(const config::Config& config, const Start& start) {
  const bool is_counted = config.optimizer.max_train_steps > 0;
  return {.first = start.saved.step,
          .last = is_counted ? config.optimizer.max_train_steps : start.saved.step + 1,
          .every = config.run.checkpoint_every,
          .at_end = config.run.save_final_checkpoint};
}

data::PrefetchOptions prefetch_options(const config::Config& config) {
  data::PrefetchOptions out;
  out.threads = static_cast<int>(config.data.decode_threads);
  out.depth = config.data.prefetch_batches;
  return out;
}

training::EvaluationOptions evaluation_options(const config::Config& config,
                                               const model_source::Expert& expert) {
  return {.timesteps = trained_timesteps(config, expert),
          .samples = config.data.num_eval_samples,
          .max_samples_per_timestep = config.run.eval_max_number_of_samples_in_bucket,
          .seed = static_cast<uint64_t>(config.run.seed),
          .program = program_options(config)};
}

std::vector<std::string> batch_axes(const config::Config& config, const mesh::Placement& place,
                                    int64_t samples) {
  return mesh::batch_axes(place, config.parallel.data_sharding, samples);
}

RunLength run_length(const config::Config& known, const Start& start, int64_t samples,
                     int64_t batch) {
  config::Config resolved = known;
  const int64_t max_steps = steps_of(known.optimizer, samples, batch);
  resolved.optimizer.max_train_steps = max_steps;
  resolved = with_schedule(std::move(resolved), start);
  RunLength out{.loop = {.max_steps = max_steps,
                         .checkpoint_every = known.run.checkpoint_every,
                         .final_checkpoint = known.run.save_final_checkpoint,
                         .on_nonfinite = known.optimizer.on_nonfinite == config::OnNonfinite::SKIP
                                             ? training::OnNonfinite::SKIP
                                             : training::OnNonfinite::STOP,
                         .eval_every = known.run.eval_every,
                         .check_replicas_every = known.runtime.check_replicas_every},
                .schedule = schedule_of(resolved, batch)};
  check_rate(out.schedule, start, max_steps);
  out.record = record_of(resolved);
  out.notes = resume_lines(start, resolved);
  return out;
}

Settings with_resolved(const Settings& settings, const TrainingStep& step,
                       const model_source::Expert& expert) {
  config::Loaded out = settings;
  out.config = resolved_config(settings, step, expert);
  return out;
}

void check_resumes(const Start& start, const config::Config& known) {
  config::check_matches(start.saved.settings, record_of(known), start.folder);
}

void check_sampler(const config::Config& config, const networks::Network& network) {
  if (model_source::makes_videos(config.run)) {
    const std::optional<sample::PipelineFolder> pipeline = model_source::pipeline_index(config);
    check_sampler_steps(config.generate.num_inference_steps, pipeline && pipeline->schedule
                                                                 ? *pipeline->schedule
                                                                 : network->learned().sampled);
  }
}

std::string scheduler_config(const config::Config& config, const networks::Network& network,
                             const training::ObjectiveOptions& objective) {
  const model_source::ScheduleFile file = model_source::schedule_file_of(config);
  if (file.path.empty() && !objective.diffusion) {
    return "";
  }
  io::Json out =
      model_source::read_model_schedule(file, model_source::trained_transformer(config), network)
          .file;
  if (objective.diffusion) {
    out.set("prediction_type", schedulers::name_of(objective.diffusion->diffusion.prediction_type));
  }
  return out.dump() + "\n";
}

LoopSettings loop_settings(const config::Config& config, const fs::path& run, const Job& job) {
  fs::path profile = path_or(config.run.tensorboard_dir, run / "profile");
  if (!job.world().is_first()) {  // a host may have several processes
    profile /= fmt::format("process-{}", job.world().rank());
  }
  LoopSettings out{.profile_folder = std::move(profile),
                   .transfer_guard = config.runtime.transfer_guard};
  if (config.run.enable_profiler) {
    out.profile = {.skip_first = config.run.skip_first_n_steps_for_profiler,
                   .steps = config.run.profiler_steps};
  }
  if (config.run.eval_every > 0) {
    out.evaluations_without_gain = config.run.stop_after_evaluations_without_gain;
  }
  return out;
}

RecordSettings record_settings(const config::Config& config, const fs::path& run) {
  const config::RunConfig& keys = config.run;
  RecordSettings out{.run_name = keys.run_name,
                     .fps = static_cast<double>(config.generate.fps),
                     .log_period = keys.log_period,
                     .writes = keys.write_metrics,
                     .metrics = path_or(keys.metrics_file, run / "metrics.jsonl"),
                     .tensorboard = path_or(keys.tensorboard_dir, run / "tensorboard")};
  if (keys.gcs_metrics) {
    out.metrics_chunks = path_or(keys.metrics_dir, run / "metrics");
  }
  if (keys.write_timing_metrics) {
    out.timings = path_or(keys.timing_metrics_file, run / "timings.jsonl");
  }
  return out;
}

VideoSchedule video_schedule(const config::Config& config) {
  const config::RunConfig& run = config.run;
  return {.any = model_source::makes_videos(run),
          .at_evaluations = run.enable_generate_video_for_eval && run.eval_every > 0,
          .compares = run.enable_ssim};
}

void check_before_loading(const Settings& settings, const fs::path& run_folder, const Job& job) {
  const config::Config& config = settings;
  const config::RunConfig& run = config.run;
  io::check_writable(checkpoints_folder(config, run_folder));
  io::check_replaceable(run_folder / "config.yml", config::kYamlHeader,
                        "a config.yml of kinema train");
  io::check_replaceable(run_folder / "flags.json", "{", "a flags.json of kinema train");
  for (const std::string& file : {run.metrics_file, run.timing_metrics_file}) {
    std::error_code ignored;
    check(file.empty() || !fs::is_directory(file, ignored),
          "[train] {} is a folder, expected a file", file);
    if (!file.empty()) {
      io::check_writable(fs::path(file).parent_path());
      io::make_folder(fs::path(file).parent_path());
    }
  }
  if (run.write_metrics) {
    metrics::check_holds_rows(path_or(run.metrics_file, run_folder / "metrics.jsonl"), R"({"step")",
                              "metrics");
  }
  if (!run.timing_metrics_file.empty()) {
    metrics::check_holds_rows(run.timing_metrics_file, R"({"phase")", "timings");
  }
  io::make_folder(run.tensorboard_dir);
  if (model_source::makes_videos(run)) {
    job.notice(prompt_notices(settings));  // parses them
  }
  if (run.checkpoint_every < 1 && !run.save_final_checkpoint) {
    job.notice(
        "THIS RUN WILL END WITHOUT WEIGHTS: checkpoint_every is -1 and save_final_checkpoint is "
        "false; save_final_checkpoint=true saves them");
  }
}

void write_run_files(const Settings& record, const Settings& used,
                     const model_source::Expert& expert, const fs::path& run, bool one_device,
                     const Job& job) {
  config::Loaded kept = record;
  if (expert.boundary_ratio) {
    kept.config.generate.boundary_ratio = *expert.boundary_ratio;
  }
  io::write_file(run / "config.yml", to_yaml(kept));
  const flags::Effective flags =
      resolve_flags(used, {.one_device = one_device, .program = job.program()});
  io::write_file(run / "flags.json", flags::to_json(flags).dump());
}

}  // namespace kinema::resolve
