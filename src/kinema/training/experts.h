#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "kinema/training/checkpoint.h"
#include "kinema/training/loop.h"
#include "kinema/training/objective.h"
#include "kinema/training/trainer.h"

/// The two transformers of Wan 2.2 trained by one run: each step trains one of them, on timesteps
/// of its side of the boundary. 0 is `transformer` (high noise), 1 is `transformer_2`.
namespace kinema::training {

/// The expert for a timestep: the boundary itself is high noise.
int64_t expert_at(double timestep, double boundary);

/// The fraction of the drawn timesteps, for these options, that are at or above the boundary.
double high_noise_probability(const ObjectiveOptions& options);

/// The expert of each step: a pure function of (seed, step). Phases of `length` steps are high
/// noise with the probability `high_noise_probability`, independent of earlier phases.
struct ExpertSchedule {
  uint64_t seed = 0;
  double high_noise_probability = 1;
  int64_t length = 1;

  int64_t expert_of(int64_t step) const;
  /// The number of the expert's steps among the first `steps`.
  int64_t count(int64_t expert, int64_t steps) const;
};

/// The settings of a run of both experts, in addition to its trainer.
struct TwoExperts {
  ExpertSchedule schedule;
  /// The idle expert's state is in host memory instead of on the devices.
  bool idle_on_host = false;
};

/// Bytes per device, and of all hosts' memory, of an idle expert.
struct IdleBytes {
  int64_t device = 0;
  int64_t host = 0;
};
IdleBytes idle_bytes(const StateParts<nn::ParamSpec>& state, const mesh::Placement& place,
                     bool on_host);
/// The part of its host memory that is in this process.
int64_t idle_host_bytes(const StateParts<nn::ParamSpec>& state, const runtime::Devices& devices,
                        bool on_host);

/// One or two networks in training. Two have the same sizes and share the compiled steps of one
/// trainer, which holds the state of one at a time; each counts its own updates.
class Experts {
 public:
  /// A single network, in the trainer.
  explicit Experts(std::unique_ptr<Trainer> trainer) : trainer_(std::move(trainer)) {}
  /// Both; the trainer's step has ObjectiveOptions::boundary.
  Experts(std::unique_ptr<Trainer> trainer, TwoExperts two);

  int64_t size() const { return two_ ? 2 : 1; }
  bool idle_on_host() const { return two_ && two_->idle_on_host; }
  /// Sets the state of each expert, before the first run. Of two, the low-noise one comes first: it
  /// is moved away before the other uses device memory.
  void set_state(int64_t expert, State state);

  int64_t expert_of(int64_t step) const { return two_ ? two_->schedule.expert_of(step) : 0; }
  /// Steps of the same expert before this one, the argument of its learning rate schedule. Fast for
  /// consecutive steps.
  int64_t steps_before(int64_t step);

  /// Trainer::run for the expert of this step.
  StepResult run(int64_t step, double learning_rate, const data::Batch& batch);
  /// Makes this expert the active one.
  void bring(int64_t expert);
  /// The expert whose state the trainer holds.
  int64_t active() const { return active_; }
  Trainer& trainer() { return *trainer_; }
  const Trainer& trainer() const { return *trainer_; }
  /// The expert's state on the devices, moved there; valid until the next step, or until the other
  /// expert becomes active.
  StateView state(int64_t expert);
  /// The same, without moving it; valid until the next step, or until the other expert becomes
  /// active.
  StateSource source(int64_t expert) const;
  /// Trainer::set_stop_requested.
  void set_stop_requested(std::function<bool()> asked) {
    trainer_->set_stop_requested(std::move(asked));
  }
  /// Trainer::check_replicas for each state on the devices.
  void check_replicas();

  /// The memory of the idle expert; of the host, in this process.
  IdleBytes idle_bytes() const;

 private:
  /// The number of steps before `next` of each expert.
  struct Counted {
    int64_t next = 0;
    std::array<int64_t, 2> steps{};
  };

  /// Exchanges two states that are both on the devices.
  void exchange();

  std::unique_ptr<Trainer> trainer_;
  std::optional<TwoExperts> two_;
  int64_t active_ = 0;
  State idle_;           // of the idle expert
  HostState idle_host_;  // or here
  Counted counted_;
};

}  // namespace kinema::training
