#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "kinema/job/job.h"
#include "kinema/jobs/training.h"
#include "kinema/nn/params.h"
#include "kinema/optimizers/optimizer.h"
#include "kinema/resolve/resume.h"
#include "kinema/runtime/array.h"

/// The initial state of a training run: from a checkpoint, from pretrained weights, or from
/// scratch.
namespace kinema::jobs {

/// Throws an Error if a checkpoint has no state of this optimizer.
void check_optimizer_of(const std::filesystem::path& checkpoint, std::string_view optimizer);

/// Initializes the network with index `place` with the weights of another run's checkpoint: a
/// network, or a network's adapter.
void begin_from(const std::filesystem::path& checkpoint, size_t place, Training& out);

struct InitialState {
  const resolve::Start& start;
  std::span<const nn::ParamSpec> specs;  // in the dtypes of the state
  bool ema = false;
  const optimizers::Optimizer& optimizer;
  bool with_init_optimizer = false;  // the optimizer's state also comes from init_from's checkpoint
  bool one_reader = false;           // one process reads a checkpoint and sends it to the others
};

/// Loads the state of each network onto the devices.
void load_states(const InitialState& what, const runtime::Devices& devices, const Job& job,
                 Training& out);

}  // namespace kinema::jobs
