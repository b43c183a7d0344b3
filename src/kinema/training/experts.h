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

/// The expert that a timestep belongs to: the boundary itself is high noise.
int64_t expert_at(double timestep, double boundary);

/// What of the timesteps drawn with these options lies at the boundary or above, 0 to 1.
double share_of_high_noise(const ObjectiveOptions& options);

/// Whose turn each step is: a pure function of (seed, step). A turn is `length` steps, and is high
/// noise with the probability `share_high`, whatever the turns before were.
struct Turns {
  uint64_t seed = 0;
  double share_high = 1;
  int64_t length = 1;

  int64_t expert_of(int64_t step) const;
  /// How many of the first `steps` steps are the expert's.
  int64_t count(int64_t expert, int64_t steps) const;
};

/// What a run of both experts is beside its trainer.
struct TwoExperts {
  Turns turns;
  /// The state of the expert whose turn it is not waits in the host's memory, in place of the
  /// devices'.
  bool idle_on_host = false;
};

/// Bytes of each device, and of all hosts' memory, that an expert takes while it waits.
struct IdleBytes {
  int64_t device = 0;
  int64_t host = 0;
};
IdleBytes idle_bytes(const StateParts<nn::ParamSpec>& state, const mesh::Placement& place,
                     bool on_host);
/// What of the host's memory it takes in this process.
int64_t idle_host_bytes(const StateParts<nn::ParamSpec>& state, const runtime::Devices& devices,
                        bool on_host);

/// One or two networks under training. Two are of the same sizes and share the compiled steps of
/// one trainer, on which their states take turns; the state of one counts its own updates.
class Experts {
 public:
  /// A single network: the trainer's own.
  explicit Experts(std::unique_ptr<Trainer> trainer) : trainer_(std::move(trainer)) {}
  /// Both; the trainer's step has ObjectiveOptions::boundary.
  Experts(std::unique_ptr<Trainer> trainer, TwoExperts two);

  int64_t size() const { return two_ ? 2 : 1; }
  bool idle_on_host() const { return two_ && two_->idle_on_host; }
  /// Of each expert, before the first run. Of two the low-noise one first: it is then set aside
  /// before the other one takes memory of the devices.
  void set_state(int64_t expert, State state);

  int64_t expert_of(int64_t step) const { return two_ ? two_->turns.expert_of(step) : 0; }
  /// Steps of the same expert before this one: what its learning rate goes by. Quick for steps that
  /// follow one another.
  int64_t steps_before(int64_t step);

  /// Trainer::run for the expert whose turn it is.
  StepResult run(int64_t step, double learning_rate, const data::Batch& batch);
  /// Has the trainer work on this expert from now on.
  void bring(int64_t expert);
  /// The one that the trainer works on.
  int64_t active() const { return active_; }
  Trainer& trainer() { return *trainer_; }
  const Trainer& trainer() const { return *trainer_; }
  /// The expert's state on the devices, brought there; until the next step, or the other's turn.
  StateView state(int64_t expert);
  /// The same from where it lies; until the next step, or the other's turn.
  StateSource source(int64_t expert) const;
  /// Trainer::set_stop_asked.
  void set_stop_asked(std::function<bool()> asked) { trainer_->set_stop_asked(std::move(asked)); }
  /// Trainer::check_replicas of each state that is on the devices.
  void check_replicas();

  /// What the expert takes whose turn it is not; of the host, in this process.
  IdleBytes idle_bytes() const;

 private:
  /// How many steps before `next` each expert had.
  struct Counted {
    int64_t next = 0;
    std::array<int64_t, 2> steps{};
  };

  /// Of two that are both on the devices.
  void exchange();

  std::unique_ptr<Trainer> trainer_;
  std::optional<TwoExperts> two_;
  int64_t active_ = 0;
  State idle_;           // of the other one
  HostState idle_host_;  // or here
  Counted counted_;
};

}  // namespace kinema::training
