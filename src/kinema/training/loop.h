#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kinema/data/source.h"

namespace kinema::training {

/// The result of one step.
struct StepResult {
  double loss = 0;
  double gradient_norm = 0;  // of all gradients together, before clipping
  double max_abs_gradient = 0;
  bool finite = true;  // false: the step changed nothing
  bool stop = false;   // a stop was requested in some process, and all processes know it
  /// D-adaptation's d after the step, if the optimizer has one.
  std::optional<double> estimate = {};
};

/// The report of a step.
struct StepRecord {
  int64_t step = 0;  // 0 for the first; users see numbers from 1
  double loss = 0;
  double gradient_norm = 0;
  double max_abs_gradient = 0;
  bool finite = true;                   // these four as in StepResult
  std::optional<double> estimate = {};  // as in StepResult
  double learning_rate = 0;
  double seconds = 0;                // since the previous step, including waiting for data
  double expected_seconds = 0;       // of the step, as `plan` computes it; 0: unknown
  double tflops = 0;                 // per device and step
  double peak_tflops = 0;            // per device and second, by the vendor; 0: unknown
  std::string expert = {};           // for two experts, the one that the step trained: `high_noise`
  std::string nonfinite = {};        // where, if the step was not finite
  std::optional<double> epoch = {};  // passes over the data after the step, for data with an end
  // For several processes: the seconds of each process, by rank, for its own part of the last step
  // for which they are known, without waiting for others.
  std::vector<double> process_seconds = {};
  int64_t rss_bytes = 0;       // of this process; 0: unknown
  int64_t peak_rss_bytes = 0;  // of this process so far; 0: unknown
  // Of its first device, if the plugin reports it.
  std::optional<int64_t> device_bytes = {};
  std::optional<int64_t> peak_device_bytes = {};  // so far
};

enum class OnNonfinite : uint8_t { STOP, SKIP };

struct LoopOptions {
  int64_t first_step = 0;  // > 0 when resuming
  int64_t max_steps = 1;
  int64_t checkpoint_every = -1;  // -1: none before the end
  bool final_checkpoint = true;
  OnNonfinite on_nonfinite = OnNonfinite::STOP;
  int64_t eval_every = -1;           // steps; -1: never
  int64_t check_replicas_every = 0;  // steps; also before each checkpoint; 0: never
  double peak_tflops = 0;
};

/// What somebody asks of a run between two steps.
struct Asked {
  bool save = false;    // a checkpoint
  bool sample = false;  // videos of the run's prompts
};

/// The functions that the loop calls; tests pass dummies.
struct LoopParts {
  /// Called at the start of a step; may be empty.
  std::function<void(int64_t step)> begin_step;
  /// The next batch; nothing at the end of the data.
  std::function<std::optional<data::Batch>()> next_batch;
  std::function<double(int64_t step)> learning_rate;
  std::function<StepResult(int64_t step, double learning_rate, const data::Batch&)> run_step;
  /// TFLOPs per device of a step with this batch; may be empty.
  std::function<double(const data::Batch&)> tflops;
  /// StepRecord::expected_seconds; may be empty.
  std::function<double(const data::Batch&)> expected_seconds;
  /// The module in which a step became non-finite first: `blocks.3.attn1`.
  std::function<std::string(int64_t step, const data::Batch&)> find_nonfinite;
  /// Throws if devices that must hold equal values do not.
  std::function<void()> check_replicas;
  /// Writes a checkpoint after `steps` completed steps. If `go_on`, steps follow and it may return
  /// before the checkpoint is complete.
  std::function<void(int64_t steps, bool go_on)> save;
  /// Throws if a started checkpoint could not be written; with `wait`, waits for it.
  std::function<void(bool wait)> saved;
  std::function<void(const StepRecord&)> report;
  /// The loss on held-out samples after step `step`. If it throws, the state is saved first.
  std::function<void(int64_t step)> evaluate;
  std::function<bool()> stop_requested;
  /// Called after each step; may be empty.
  std::function<Asked()> asked = {};
  /// Videos after step `step`, if they are asked for. If it throws, the state is saved first.
  std::function<void(int64_t step)> sample = {};
  /// A log line that is not about a step: skipped batches, signals.
  std::function<void(const std::string&)> say;
};

struct LoopEnd {
  int64_t steps = 0;  // completed, including earlier runs
  int64_t skipped = 0;
  bool stopped = false;  // by a request, before max_steps
};

/// Runs steps first_step .. max_steps - 1, then writes a final checkpoint. If a step is not finite
/// and on_nonfinite is STOP, writes a checkpoint of the previous step and throws an Error.
LoopEnd train_loop(const LoopOptions& options, const LoopParts& parts);

/// Memory figures at the end of a step, by name: `perf/rss_bytes`.
std::vector<std::pair<std::string, int64_t>> memory_figures(const StepRecord& record);

/// The fraction of the device's peak FLOP/s that a step reached; 0 if either is unknown.
double model_flops_utilization(const StepRecord& record);

/// `completed step: 12, seconds: 0.241, GFLOP/s/device: 103.100, loss: 0.842` for the twelfth step,
/// with `, MFU: 41.2 %` if the device's peak is known, and `, expert: low_noise` for a run of both
/// experts.
std::string console_line(const StepRecord& record);

}  // namespace kinema::training
