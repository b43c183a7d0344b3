#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kinema/planning/sweep.h"
#include "kinema/resolve/settings.h"

/// The same run with other values of a few keys: what a plan compares.
namespace kinema::resolve {

/// Keys to set on top of settings.
struct Change {
  std::vector<std::pair<std::string, std::string>> keys;

  /// `remat_policy=FULL optimizer=adamw8bit`.
  std::string text() const;
  Settings on(const Settings& settings) const;
  /// Both changes.
  Change with(const Change& other) const;
};

/// A planned step that takes too much memory.
struct LargeStep {
  int64_t devices = 1;
  int64_t data = 1;  // sizes of the mesh's axes that divide the batch
  int64_t fsdp = 1;
  bool accelerator = false;     // its devices have memory of their own
  bool idle_on_device = false;  // the expert that waits is in the devices' memory
  bool guided = false;          // a denoising step computes guidance
  /// The share of the step's memory beside its arguments that is there.
  double share = 1;
};

/// Changes that take less memory, those that change no loss, or no picture, first.
std::vector<Change> smaller_training(const Settings& settings, const LargeStep& step);
std::vector<Change> smaller_generation(const Settings& settings, const LargeStep& step);

/// The settings with a mesh, a remat policy and a batch that a sweep tries.
Settings with_candidate(const Settings& settings, const planning::Candidate& candidate,
                        bool trains);

/// Samples of a training step, or videos at a time, as the settings have it.
int64_t samples_of_step(const config::Config& config, int64_t devices, bool trains);

/// The most of `samples`, less than all, that are a whole share of them, divide over `shards`, and
/// are at most `most`; else the fewest there are. Nothing where there are not fewer.
std::optional<int64_t> fewer_samples(int64_t samples, int64_t shards, double most);

}  // namespace kinema::resolve
