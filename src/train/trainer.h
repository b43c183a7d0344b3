#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/host_array.h"
#include "data/source.h"
#include "pjrt/client.h"
#include "runtime/program.h"
#include "train/checkpoint.h"
#include "train/loop.h"
#include "train/nonfinite.h"
#include "train/step.h"

namespace kinema::train {

struct TrainerOptions {
  uint64_t seed = 0;
  /// Text states [t, d] of the empty caption; needed with caption dropout.
  std::optional<HostArray> empty_text;
  runtime::ProgramOptions program;
};

/// A compiled step and the state it works on, on the device.
class Trainer {
 public:
  /// Compiles the step. `state` as from fresh_state or load_state.
  Trainer(const pjrt::Client& client, std::span<const nn::ParamSpec> specs, const Model& model,
          const BatchShapes& batch, const StepOptions& step, std::vector<pjrt::Buffer> state,
          const TrainerOptions& options);

  /// One step on a batch, whose shapes are those the step was built with (a larger batch is cut to
  /// its first samples). Waits for the result.
  StepResult run(int64_t step, double learning_rate, const data::Batch& batch);

  /// A step with given noise [b, c, f, h, w], timesteps [b] and weights [b], for `given_draw`.
  StepResult run(int64_t step, double learning_rate, const data::Batch& batch,
                 std::span<const HostArray> draw);

  /// Where a step of this number on this batch first meets a value that is not finite; compiles a
  /// program of its own.
  std::string find_nonfinite(int64_t step, const data::Batch& batch,
                             const TappedModel& model) const;

  /// The state now.
  StateView state() const { return {graph_.specs, graph_.ema, state_}; }
  /// The parameters whose gradients were not finite in the last step.
  std::vector<std::string> nonfinite_gradients() const;
  const runtime::ProgramReport& report() const { return program_.report(); }

 private:
  pjrt::Buffer upload(const HostArray& array, const Shape& wanted, const char* what) const;

  pjrt::Client client_;
  BatchShapes batch_;
  StepOptions options_;
  StepGraph graph_;
  runtime::Program program_;
  std::vector<pjrt::Buffer> state_;
  pjrt::Buffer key_;
  pjrt::Buffer empty_text_;  // null without caption dropout
  pjrt::Buffer squares_;     // of the last step
};

}  // namespace kinema::train
