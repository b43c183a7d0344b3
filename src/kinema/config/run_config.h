#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/config/choices.h"
#include "kinema/config/field.h"
#include "kinema/config/given.h"

namespace kinema::config {

/// The run: its folders, device, logging and checkpoints.
struct RunConfig {
  std::string run_name;
  std::string output_dir = "outputs";
  int64_t seed = 0;

  Hardware hardware = Hardware::CPU;
  std::string pjrt_plugin;
  int64_t cpu_device_count = 1;
  bool cpu_kernels = true;
  std::string cpu_isa = "auto";
  std::string executable_cache;
  std::string compiled_step;
  std::string dump_to;
  std::string flags_profile;
  Tree xla_flags{"{}"};
  std::vector<std::string> allow_flags;

  bool write_metrics = true;
  std::string metrics_file;
  bool write_timing_metrics = true;
  std::string timing_metrics_file;
  int64_t log_period = 100;
  std::string tensorboard_dir;
  std::string metrics_dir;

  int64_t checkpoint_every = -1;
  std::string checkpoint_dir;
  std::string resume_from;
  std::string init_from;
  bool init_optimizer = false;
  Given<int64_t> checkpoints_to_keep = 2;
  int64_t checkpoint_keep_period = 0;
  bool background_checkpoints = true;
  bool save_final_checkpoint = true;
  bool save_optimizer = true;

  int64_t eval_every = -1;
  std::string eval_data_dir;
  double eval_split = 0.0;
  int64_t stop_after_evaluations_without_gain = 0;
  bool enable_generate_video_for_eval = false;
  int64_t eval_max_number_of_samples_in_bucket = 60;
  bool enable_ssim = false;

  bool enable_single_replica_ckpt_restoring = false;

  bool enable_profiler = false;
  int64_t skip_first_n_steps_for_profiler = 5;
  int64_t profiler_steps = 10;

  bool gcs_metrics = false;
  bool save_config_to_gcs = false;
  std::string base_output_directory;

  bool operator==(const RunConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("run_name", self.run_name, UNRELATED,
          {.help = "name of the run folder; train requires it", .share = Share::YES});
    visit("output_dir", self.output_dir, UNRELATED,
          {.help = "parent of the run folder, output_dir/run_name; also gs:// and s3:// "
                   "(docs/guides/storage.md)",
           .in_store = true});
    visit("seed", self.seed, MUST_MATCH,
          {.help = "random seed of initialisation, data order, noise and dropout",
           .min = 0,
           .share = Share::YES,
           .reload = Reload::NOTHING});

    visit("hardware", self.hardware, MAY_CHANGE,
          {.help = "platform of the PJRT plugin to load if pjrt_plugin is empty",
           .one_of = choices(self.hardware)});
    visit("pjrt_plugin", self.pjrt_plugin, UNRELATED,
          {.help = "path of a PJRT plugin (.so) to load"});
    visit("cpu_device_count", self.cpu_device_count, MAY_CHANGE,
          {.help = "number of devices of the CPU plugin", .min = 1, .max = 1024});
    visit("cpu_kernels", self.cpu_kernels, MAY_CHANGE,
          {.help = "large matmuls and convolutions on CPU run in oneDNN instead of the plugin",
           .share = Share::YES});
    visit(
        "cpu_isa", self.cpu_isa, MAY_CHANGE,
        {.help = "highest CPU instruction set to use; results are bit-identical for equal settings",
         .one_of = "auto | avx2 | avx512 | avx512_bf16 | amx"});
    visit("executable_cache", self.executable_cache, UNRELATED,
          {.help = "folder of the compilation cache; empty or `on`: in the cache folder; `off`: no "
                   "cache"});
    visit("compiled_step", self.compiled_step, UNRELATED,
          {.help = "compiled program from `kinema plan save_executable=`, loaded instead of "
                   "compiling the step of train or generate"});
    visit("dump_to", self.dump_to, UNRELATED, {.help = "folder for the programs' StableHLO text"});

    visit("flags_profile", self.flags_profile, MAY_CHANGE,
          {.help = "compiler flags of a profile; `kinema flags list` names them"});
    visit("xla_flags", self.xla_flags, MAY_CHANGE,
          {.help = "compiler flags: {NAME: VALUE}; xla_flags.NAME=VALUE on the command line"});
    visit("allow_flags", self.allow_flags, UNRELATED,
          {.help = "rules of docs/reference/flags.md whose errors do not stop a run"});

    visit("write_metrics", self.write_metrics, UNRELATED,
          {.help = "write metrics.jsonl and TensorBoard event files"});
    visit("metrics_file", self.metrics_file, UNRELATED,
          {.help = "path of the metrics file; empty: metrics.jsonl in the run folder",
           .in_store = true});
    visit("write_timing_metrics", self.write_timing_metrics, UNRELATED,
          {.help = "write the time spent in loading, compiling, steps and checkpoints"});
    visit("timing_metrics_file", self.timing_metrics_file, UNRELATED,
          {.help = "path of the timing file; empty: timings.jsonl in the run folder",
           .in_store = true});
    visit("log_period", self.log_period, UNRELATED,
          {.help = "steps between TensorBoard flushes", .min = 1});
    visit("tensorboard_dir", self.tensorboard_dir, UNRELATED,
          {.help = "folder of TensorBoard event files; empty: tensorboard/ in the run folder",
           .in_store = true});
    visit("metrics_dir", self.metrics_dir, UNRELATED,
          {.help = "folder of the files of gcs_metrics; empty: metrics/ in the run folder",
           .with = "gcs_metrics",
           .in_store = true});

    visit("checkpoint_every", self.checkpoint_every, UNRELATED,
          {.help = "steps between checkpoints; -1 or 0: only a final one", .min = -1});
    visit("checkpoint_dir", self.checkpoint_dir, UNRELATED,
          {.help = "folder of checkpoints; empty: checkpoints/ in the run folder",
           .share = Share::FILE,
           .in_store = true});
    visit("resume_from", self.resume_from, UNRELATED,
          {.help = "run folder or checkpoint to resume from (weights, optimizer, step, data "
                   "position) when this run has no checkpoint yet"});
    visit(
        "init_from", self.init_from, UNRELATED,
        {.help =
             "run (name or folder) or checkpoint whose weights a new run starts from, at step 0"});
    visit("init_optimizer", self.init_optimizer, UNRELATED,
          {.help = "a new run also takes the optimizer state of init_from", .with = "init_from"});
    visit("enable_single_replica_ckpt_restoring", self.enable_single_replica_ckpt_restoring,
          UNRELATED,
          {.help = "several processes: one device reads each part of a checkpoint and sends it to "
                   "the other devices that hold it; false: every process reads the parts of its "
                   "own devices"});
    visit("checkpoints_to_keep", self.checkpoints_to_keep, UNRELATED,
          {.help = "number of newest checkpoints to keep; 0: all", .min = 0});
    visit("checkpoint_keep_period", self.checkpoint_keep_period, UNRELATED,
          {.help = "also keep checkpoints whose step is a multiple of this; 0: none",
           .min = 0,
           .with = "checkpoints_to_keep"});
    visit("background_checkpoints", self.background_checkpoints, UNRELATED,
          {.help = "write checkpoints in the background while steps continue, from a copy in host "
                   "memory where it fits"});
    visit("save_final_checkpoint", self.save_final_checkpoint, UNRELATED,
          {.help = "write a checkpoint after the last step"});
    visit("save_optimizer", self.save_optimizer, UNRELATED,
          {.help = "include the optimizer state in checkpoints, which a resume needs"});

    visit("eval_every", self.eval_every, UNRELATED,
          {.help = "steps between evaluations; -1: none", .min = -1});
    visit("eval_data_dir", self.eval_data_dir, MAY_CHANGE,
          {.help = "evaluation samples: TFRecords (prepare's eval_tfrecords_dir), or clips as in "
                   "train_data_dir",
           .with = "eval_every",
           .in_store = true});
    visit("eval_split", self.eval_split, MUST_MATCH,
          {.help = "fraction of the training samples held out for evaluation, at least one, chosen "
                   "by seed and names; 0: none",
           .min = 0,
           .max = 0.9});
    visit("stop_after_evaluations_without_gain", self.stop_after_evaluations_without_gain,
          MAY_CHANGE,
          {.help = "early stopping: end the run after this many consecutive evaluations without a "
                   "lower loss; 0: never",
           .min = 0,
           .with = "eval_every"});
    visit("enable_generate_video_for_eval", self.enable_generate_video_for_eval, UNRELATED,
          {.help = "at each evaluation, sample the videos of prompt or prompt_file into "
                   "samples/STEP of the run folder and TensorBoard; eval_data_dir may be empty",
           .with = "eval_every"});
    visit("eval_max_number_of_samples_in_bucket", self.eval_max_number_of_samples_in_bucket,
          MAY_CHANGE,
          {.help = "maximum number of evaluation samples per timestep",
           .min = 1,
           .with = "eval_every"});
    visit("enable_ssim", self.enable_ssim, UNRELATED,
          {.help = "sample the first prompt before and after training and report SSIM and PSNR "
                   "between the two"});

    visit("enable_profiler", self.enable_profiler, UNRELATED,
          {.help = "record a trace of a few steps for TensorBoard's profiler and Perfetto, in "
                   "profile/ of the run folder"});
    visit("skip_first_n_steps_for_profiler", self.skip_first_n_steps_for_profiler, UNRELATED,
          {.help = "steps to skip before the trace", .min = 0, .with = "enable_profiler"});
    visit("profiler_steps", self.profiler_steps, UNRELATED,
          {.help = "number of steps in the trace", .min = 1, .with = "enable_profiler"});

    visit("gcs_metrics", self.gcs_metrics, UNRELATED,
          {.help = "write each log_period's metrics to its own file in metrics_dir "
                   "(metrics_step_000000_to_step_000099.txt), for object stores without append"});
    visit("save_config_to_gcs", self.save_config_to_gcs, UNRELATED,
          {.help = "also write config.yml to base_output_directory/run_name"});
    visit("base_output_directory", self.base_output_directory, UNRELATED,
          {.help = "folder or store for save_config_to_gcs",
           .with = "save_config_to_gcs",
           .in_store = true});
  }
};

}  // namespace kinema::config
