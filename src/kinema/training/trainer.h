#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/data/source.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"
#include "kinema/runtime/replicas.h"
#include "kinema/training/checkpoint.h"
#include "kinema/training/loop.h"
#include "kinema/training/nonfinite.h"
#include "kinema/training/step.h"

namespace kinema::training {

struct TrainerOptions {
  uint64_t seed = 0;
  /// Text states [t, d] of the empty caption; needed with caption dropout.
  std::optional<HostArray> empty_text;
  /// The same as one vector [p], where batches have pooled text.
  std::optional<HostArray> empty_pooled = {};
  runtime::ProgramOptions program;
  /// Called with each step before it is compiled; what it throws ends that.
  std::function<void(const StepGraph&)> before_compile = {};
};

/// A compiled step for each shape that batches have, and the state that all of them work on, on one
/// device or over a mesh.
class Trainer {
 public:
  /// Compiles the step of one shape for the devices, over whose mesh it works as `step` says.
  /// `state` as from fresh_state or load_state with the same devices, or empty: set_state gives it.
  Trainer(const runtime::Devices& devices, std::span<const nn::ParamSpec> specs, const Model& model,
          const BatchShapes& batch, StepOptions step, State state, const TrainerOptions& options);

  /// Before the first run of a trainer that was made without a state.
  void set_state(State state);
  /// The state, which the trainer then has none of.
  State take_state() { return std::exchange(state_, {}); }
  /// Takes a state from the host's memory in the place of its own, which then lies there, array by
  /// array: at no time are two on the devices. What several devices hold is copied from the first.
  void exchange(HostState& other);
  /// Whether this process was asked to stop, which steps over several tell all of them
  /// (StepResult::stop).
  void set_stop_asked(std::function<bool()> asked) { stop_asked_ = std::move(asked); }
  /// The samples of a batch that this process's devices hold; empty: all.
  std::vector<int64_t> rows() const;
  /// From which side of ObjectiveOptions::boundary timesteps are drawn from now on; 0 before.
  void set_expert(int64_t expert);
  /// Bytes that the state takes of each device, and a step with it at its largest; on a CPU with
  /// the working space of kernels. Of the host, for each device that has a memory of its own: what
  /// waits there.
  int64_t state_bytes() const;
  int64_t waiting_bytes() const;
  int64_t step_bytes() const;
  /// What the state is made of.
  const StateParts<nn::ParamSpec>& state_parts() const { return first().graph.state; }

  /// Compiles the step of another shape, with as many samples.
  void add_shapes(const Model& model, const BatchShapes& batch);

  /// One step on a batch, whose shapes are those that a step was built for (a larger batch is cut
  /// to its first samples). Waits for the result.
  StepResult run(int64_t step, double learning_rate, const data::Batch& batch);

  /// A step with given noise [b, c, f, h, w], timesteps [b], weights [b] and, where first frames
  /// may be given, which are (f32 [b], 1 or 0), for `given_draw`.
  StepResult run(int64_t step, double learning_rate, const data::Batch& batch,
                 std::span<const HostArray> draw);

  /// Where a step of this number on this batch first meets a value that is not finite; compiles a
  /// program of its own.
  std::string find_nonfinite(int64_t step, const data::Batch& batch,
                             const TappedModel& model) const;

  /// The same, operation by operation over the whole step, gradients and loops included: the first
  /// that gave such a value, with its path; empty when the step, made again, is finite. `model` is
  /// that of the step.
  std::string find_operation(int64_t step, double learning_rate, const data::Batch& batch,
                             const Model& model) const;

  /// Throws an Error that names devices whose copies of the last step's loss, gradient norm and
  /// gradients, or of the state, are not those of the others. Does nothing on one device.
  void check_replicas();

  const runtime::Devices& devices() const { return devices_; }
  /// The state now.
  StateView state() const {
    const StateParts<nn::ParamSpec>& kept = first().graph.state;
    return {first().graph.specs, state_, {.mu = kept.mu, .nu = kept.nu}};
  }
  /// The parameters whose gradients were not finite in the last step.
  std::vector<std::string> nonfinite_gradients() const;
  /// The shapes that a step was compiled for, in the order in which they were given.
  size_t shapes() const { return steps_.size(); }
  const BatchShapes& batch(size_t shape = 0) const { return steps_.at(shape)->batch; }
  /// The number of a batch's shape. Throws an Error when no step was compiled for it.
  size_t shape_of(const data::Batch& batch) const;
  const runtime::ProgramReport& report(size_t shape = 0) const {
    return steps_.at(shape)->program.report();
  }
  const runtime::Program& program(size_t shape = 0) const { return steps_.at(shape)->program; }
  /// The programs that a step is made of where `jit` is false; else null.
  const runtime::Pieces* pieces() const { return first().program.pieces(); }
  /// Where each input of the step lies, and what the compiler moves between devices, as lines.
  std::vector<std::string> sharding_report() const;

 private:
  /// What a step is given, in the order of its inputs.
  struct Arguments {
    std::vector<runtime::Array> uploaded;
    std::vector<const runtime::Array*> all;
  };
  /// The step of one shape.
  struct Compiled {
    BatchShapes batch;
    StepGraph graph;
    runtime::Program program;
  };
  const Compiled& first() const { return *steps_.front(); }
  const Compiled& step_for(const data::Batch& batch) const { return *steps_[shape_of(batch)]; }
  void compile(std::span<const nn::ParamSpec> specs, const Model& model, const BatchShapes& batch);
  bool takes_expert() const { return options_.objective.boundary && !options_.given_draw; }
  Arguments arguments(const Compiled& compiled, int64_t step, double learning_rate,
                      const data::Batch& batch, std::span<const HostArray> draw) const;
  void add_results(std::vector<runtime::Port>& ports,
                   std::vector<const runtime::Array*>& arrays) const;
  runtime::Array upload(const HostArray& array, std::span<const int64_t> rows,
                        const runtime::Port& port, const char* what) const;

  runtime::Devices devices_;
  StepOptions options_;
  runtime::ProgramOptions how_;
  std::function<void(const StepGraph&)> before_compile_;
  std::vector<std::unique_ptr<Compiled>> steps_;
  State state_;
  std::function<bool()> stop_asked_;
  runtime::Array key_;
  std::vector<runtime::Array> empty_captions_;     // none without caption dropout
  runtime::Array expert_;                          // empty without a boundary
  runtime::Array metrics_;                         // of the last step
  runtime::Array squares_;                         // of the last step
  bool has_results_ = false;                       // `replicas_` compares these too
  std::optional<runtime::ReplicaCheck> replicas_;  // made when it is first asked for
};

}  // namespace kinema::training
