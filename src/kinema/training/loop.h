#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kinema/data/source.h"

namespace kinema::training {

/// What one step gave.
struct StepResult {
  double loss = 0;
  double gradient_norm = 0;  // of all gradients together, before clipping
  double max_abs_gradient = 0;
  bool finite = true;  // false: the step changed nothing
  bool stop = false;   // a process was asked to, and all know it by this
};

/// What is reported of a step.
struct StepRecord {
  int64_t step = 0;  // 0 for the first; what people read counts from 1
  double loss = 0;
  double gradient_norm = 0;
  double max_abs_gradient = 0;
  bool finite = true;  // these four as in StepResult
  double learning_rate = 0;
  double seconds = 0;                // since the step before, waiting for data included
  double tflops = 0;                 // per device and step
  double peak_tflops = 0;            // per device and second, as its maker says; 0: not known
  std::string expert = {};           // of two, the one that the step trained: `high_noise`
  std::string nonfinite = {};        // where, when the step was not finite
  std::optional<double> epoch = {};  // passes over the data by its end, where that has one
  // Of several processes: what each of them took for its own part of the last step that is known
  // of it, without its waiting for the others; by rank.
  std::vector<double> process_seconds = {};
  int64_t rss_bytes = 0;       // of this process; 0: not known
  int64_t peak_rss_bytes = 0;  // of this process so far; 0: not known
  // Of its first device, where the plugin says.
  std::optional<int64_t> device_bytes = {};
  std::optional<int64_t> peak_device_bytes = {};  // so far
};

enum class OnNonfinite : uint8_t { STOP, SKIP };

struct LoopOptions {
  int64_t first_step = 0;  // > 0 when resuming
  int64_t max_steps = 1;
  int64_t checkpoint_every = -1;  // -1: none on the way
  bool final_checkpoint = true;
  OnNonfinite on_nonfinite = OnNonfinite::STOP;
  int64_t eval_every = -1;           // steps; -1: never
  int64_t check_replicas_every = 0;  // steps; also before each checkpoint; 0: never
  double peak_tflops = 0;
};

/// What the loop is made of; tests pass dummies.
struct LoopParts {
  /// Before anything of a step; may be empty.
  std::function<void(int64_t step)> begin_step;
  /// The next batch; nothing when the data is at its end.
  std::function<std::optional<data::Batch>()> next_batch;
  std::function<double(int64_t step)> learning_rate;
  std::function<StepResult(int64_t step, double learning_rate, const data::Batch&)> run_step;
  /// Of a step on this batch, per device; may be empty.
  std::function<double(const data::Batch&)> tflops;
  /// Where a step that was not finite went wrong first: `blocks.3.attn1`.
  std::function<std::string(int64_t step, const data::Batch&)> find_nonfinite;
  /// Throws where devices that must agree do not.
  std::function<void()> check_replicas;
  /// Writes a checkpoint after `steps` completed steps; where `go_on` says that steps follow, it
  /// may only have begun to on return.
  std::function<void(int64_t steps, bool go_on)> save;
  /// Throws where a checkpoint that was begun could not be written; with `wait`, when it is there
  /// or could not.
  std::function<void(bool wait)> saved;
  std::function<void(const StepRecord&)> report;
  /// The loss on samples that are not trained on, after step `step`. Where it throws, the state is
  /// saved first.
  std::function<void(int64_t step)> evaluate;
  std::function<bool()> stop_requested;
  /// A line for the user that is no step: skipped batches, signals.
  std::function<void(const std::string&)> say;
};

struct LoopEnd {
  int64_t steps = 0;  // completed, earlier runs included
  int64_t skipped = 0;
  bool stopped = false;  // by a request, before max_steps
};

/// Steps first_step .. max_steps - 1, then a final checkpoint. When a step is not finite and
/// on_nonfinite is STOP, writes the checkpoint of the steps before it and throws an Error.
LoopEnd train_loop(const LoopOptions& options, const LoopParts& parts);

/// What is known of memory by the end of a step, by name: `perf/rss_bytes`.
std::vector<std::pair<std::string, int64_t>> memory_figures(const StepRecord& record);

/// The share of the device's peak that a step's operations come to; 0 where either is not known.
double model_flops_utilization(const StepRecord& record);

/// `completed step: 12, seconds: 0.241, GFLOP/s/device: 103.100, loss: 0.842` of the twelfth step,
/// and `, MFU: 41.2 %` on devices whose peak is known, `, expert: low_noise` of a run of both.
std::string console_line(const StepRecord& record);

}  // namespace kinema::training
