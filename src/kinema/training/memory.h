#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "kinema/nn/params.h"
#include "kinema/runtime/array.h"
#include "kinema/training/experts.h"
#include "kinema/training/trainer.h"

/// The memory of a training run, known before anything is loaded.
namespace kinema::training {

/// Bytes per device, on a CPU of the process.
struct MemoryUse {
  int64_t before = 0;  // peak so far: compilation needs memory too
  int64_t held = 0;    // before the state is loaded
  int64_t state = 0;   // parameters, moments, average
  int64_t step = 0;    // in addition to the state, for the largest step
  int64_t data = 0;    // prefetched batches in host memory, on a CPU

  int64_t predicted() const { return std::max(before, held + state + step + data); }
};

/// The memory of a trainer without a state, with `batches_ahead` prefetched batches and an idle
/// expert. All devices of a CPU are one process.
MemoryUse memory_use(const Trainer& trainer, const runtime::Devices& devices, int64_t batches_ahead,
                     const IdleBytes& idle = {});

/// Another configuration, and the bytes per device of its state and step.
struct Alternative {
  std::string change;  // `remat_policy=FULL`
  std::function<int64_t()> bytes;
  /// A lower bound that is known faster; empty: unknown.
  std::function<int64_t()> least = {};
};

/// Throws an Error if `wanted` bytes per device are more than are free. The message names the first
/// alternative that fits; `bytes` is not called if `least` does not fit. `what` needs the memory:
/// "a step with its state", "a step with its state at least".
void check_fits(const std::string& what, int64_t wanted, const runtime::Devices& devices,
                std::span<const Alternative> alternatives);

}  // namespace kinema::training
