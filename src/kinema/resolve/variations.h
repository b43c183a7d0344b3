#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kinema/planning/sweep.h"
#include "kinema/resolve/settings.h"

/// The same run with other values of a few keys, which a plan compares.
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

/// A planned step that needs too much memory.
struct LargeStep {
  int64_t devices = 1;
  int64_t data = 1;  // sizes of the mesh's axes that divide the batch
  int64_t fsdp = 1;
  bool accelerator = false;     // its devices have memory of their own
  bool idle_on_device = false;  // the idle expert is in device memory
  bool guided = false;          // a denoising step uses classifier-free guidance
  /// Available memory divided by the needed memory, both without the step's arguments.
  double share = 1;
};

/// Changes that need less memory; those that do not change the loss or the picture come first.
std::vector<Change> smaller_training(const Settings& settings, const LargeStep& step);
std::vector<Change> smaller_generation(const Settings& settings, const LargeStep& step);

/// The settings with the mesh, remat policy and batch of a sweep's candidate.
Settings with_candidate(const Settings& settings, const planning::Candidate& candidate,
                        bool trains);

/// Samples per training step, or videos per batch.
int64_t samples_per_step(const config::Config& config, int64_t devices, bool trains);

/// The largest divisor of `samples` that is smaller than it, a multiple of `shards`, and at most
/// `most`; else the smallest one. Nothing if there is no smaller divisor.
std::optional<int64_t> fewer_samples(int64_t samples, int64_t shards, double most);

}  // namespace kinema::resolve
