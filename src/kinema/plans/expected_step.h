#pragma once

#include <cstddef>

#include "kinema/training/trainer.h"

namespace kinema::plans {

/// The time of a training step that `plan` expects on these devices, in seconds: of the trainer's
/// compiled program for samples of `shape`. 0 for devices without known rates (CPU), and if the
/// plugin does not return the optimized program.
double expected_step_seconds(const training::Trainer& trainer, size_t shape);

}  // namespace kinema::plans
