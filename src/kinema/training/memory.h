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

/// What a training run takes, asked before anything of it is loaded.
namespace kinema::training {

/// In bytes of each device, on a CPU of the process.
struct MemoryUse {
  int64_t before = 0;  // the most so far: compiling takes memory too
  int64_t held = 0;    // before the state is loaded
  int64_t state = 0;   // parameters, moments, average
  int64_t step = 0;    // beside the state, by the largest of the steps
  int64_t data = 0;    // batches that wait in the host's memory, on a CPU

  int64_t predicted() const { return std::max(before, held + state + step + data); }
};

/// Of a trainer that has no state yet, for which so many batches are made ahead, and beside which
/// an expert waits. All devices of a CPU are one process.
MemoryUse memory_use(const Trainer& trainer, const runtime::Devices& devices, int64_t batches_ahead,
                     const IdleBytes& idle = {});

/// Another way to run, and the bytes of each device that a step with its state would take so.
struct Alternative {
  std::string change;  // `remat_policy=FULL`
  std::function<int64_t()> bytes;
  /// Those that it takes at least, where they are had sooner; empty: not known.
  std::function<int64_t()> least = {};
};

/// Throws an Error when `wanted` bytes of each device are more than are free; it names the first of
/// the alternatives that fits, and asks no `bytes` of one whose `least` do not. `what` takes so
/// much: "a step with its state", "a step with its state at least".
void check_fits(const std::string& what, int64_t wanted, const runtime::Devices& devices,
                std::span<const Alternative> alternatives);

}  // namespace kinema::training
