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
  /// Text states [t, d] of the empty caption; required for caption dropout.
  std::optional<HostArray> empty_text;
  /// Its pooled text [p], if batches have pooled text.
  std::optional<HostArray> empty_pooled = {};
  runtime::ProgramOptions program;
  /// Called with each step before it is compiled; its exceptions cancel the compilation.
  std::function<void(const StepGraph&)> before_compile = {};
};

/// A compiled step for each shape of batches, and the state that all of them update, on one device
/// or over a mesh.
class Trainer {
 public:
  /// Compiles the step of one shape for the devices and the mesh of `step`. `state` is from
  /// fresh_state or load_state with the same devices, or empty: then call set_state.
  Trainer(const runtime::Devices& devices, std::span<const nn::ParamSpec> specs, const Model& model,
          const BatchShapes& batch, StepOptions step, State state, const TrainerOptions& options);

  /// Call it before the first run of a trainer without a state.
  void set_state(State state);
  /// Moves the state out of the trainer.
  State take_state() { return std::exchange(state_, {}); }
  /// Exchanges its state with one in host memory, array by array, so that the devices never hold
  /// both. An array that is replicated on several devices is copied from the first.
  void exchange(HostState& other);
  /// A function that returns true if this process was asked to stop; steps over several processes
  /// tell all of them (StepResult::stop).
  void set_stop_requested(std::function<bool()> asked) { stop_requested_ = std::move(asked); }
  /// The samples of a batch on this process's devices; empty: all.
  std::vector<int64_t> rows() const;
  /// Sets the side of ObjectiveOptions::boundary from which timesteps are drawn; initially 0.
  void set_expert(int64_t expert);
  /// Bytes per device of the state, and the peak of a step with it, on a CPU including memory of
  /// kernels. offloaded_bytes: the bytes in host memory per device, if the device has separate
  /// memory.
  int64_t state_bytes() const;
  int64_t offloaded_bytes() const;
  int64_t step_bytes() const;
  /// The specs of the state.
  const StateParts<nn::ParamSpec>& state_parts() const { return first().graph.state; }

  /// Compiles the step for another shape with the same number of samples.
  void add_shapes(const Model& model, const BatchShapes& batch);

  /// Runs one step on a batch with shapes for which a step was compiled (a larger batch is
  /// truncated to its first samples). Waits for the result.
  StepResult run(int64_t step, double learning_rate, const data::Batch& batch);

  /// A step with given noise [b, c, f, h, w], timesteps [b], weights [b] and, if first frames may
  /// be given, a flag for each (f32 [b], 1 or 0), for `given_draw`.
  StepResult run(int64_t step, double learning_rate, const data::Batch& batch,
                 std::span<const HostArray> draw);

  /// The first module with a non-finite value in a step with this number and batch; compiles a
  /// separate program.
  std::string find_nonfinite(int64_t step, const data::Batch& batch,
                             const TappedModel& model) const;

  /// The same per operation of the whole step, including gradients and loops: the first operation
  /// with a non-finite result, with its path; empty if the step is finite when repeated. `model` is
  /// the step's.
  std::string find_operation(int64_t step, double learning_rate, const data::Batch& batch,
                             const Model& model) const;

  /// Throws an Error with the devices whose copies of the last step's loss, gradient norm and
  /// gradients, or of the state, differ from the others. Does nothing on one device.
  void check_replicas();

  const runtime::Devices& devices() const { return devices_; }
  /// The current state.
  StateView state() const {
    const StateParts<nn::ParamSpec>& kept = first().graph.state;
    return {first().graph.specs, state_, {.mu = kept.mu, .nu = kept.nu}};
  }
  /// The parameters whose gradients were not finite in the last step.
  std::vector<std::string> nonfinite_gradients() const;
  /// The number of shapes for which a step was compiled, in the order of compilation.
  size_t shapes() const { return steps_.size(); }
  const BatchShapes& batch(size_t shape = 0) const { return steps_.at(shape)->batch; }
  /// The index of a batch's shape. Throws an Error if no step was compiled for it.
  size_t shape_of(const data::Batch& batch) const;
  const runtime::ProgramReport& report(size_t shape = 0) const {
    return steps_.at(shape)->program.report();
  }
  const runtime::Program& program(size_t shape = 0) const { return steps_.at(shape)->program; }
  /// The programs of a step if `jit` is false; else null.
  const runtime::Pieces* pieces() const { return first().program.pieces(); }
  /// The sharding of each input of the step, and the collectives that the compiler inserted, as
  /// lines.
  std::vector<std::string> sharding_report() const;

 private:
  /// The arguments of a step, in the order of its inputs.
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
  bool has_expert_input() const { return options_.objective.boundary && !options_.given_draw; }
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
  std::function<bool()> stop_requested_;
  runtime::Array key_;
  std::vector<runtime::Array> empty_captions_;     // empty without caption dropout
  runtime::Array expert_;                          // empty without a boundary
  runtime::Array metrics_;                         // of the last step
  runtime::Array squares_;                         // of the last step
  bool has_results_ = false;                       // `replicas_` compares these too
  std::optional<runtime::ReplicaCheck> replicas_;  // created at its first use
};

}  // namespace kinema::training
