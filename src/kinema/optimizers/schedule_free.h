#pragma once

#include <cstdint>
#include <memory>

#include "kinema/optimizers/optimizer.h"

namespace kinema::optimizers {

struct ScheduleFreeOptions {
  /// The share of the average in the point at which gradients are computed.
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;
  /// Decoupled, at y.
  double weight_decay = 0.0;
  /// As AdamWOptions::decay_min_rank.
  int64_t decay_min_rank = 0;
  /// An iterate's weight in the average is (the largest rate so far)^weight_power t^average_power.
  double weight_power = 2.0;
  double average_power = 0.0;
};

/// Schedule-free AdamW (arXiv:2405.15682), as schedulefree's AdamWScheduleFree 1.4.1. The
/// parameters are x, the average, which is evaluated and saved; gradients are computed at y.
///
///   y = x + (1 - b1) (z - x)
///   v = b2 v + (1 - b2) g(y)^2
///   z -= rate (g / (sqrt(v / (1 - b2^t)) + eps) + weight_decay y)
///   w = largest_rate^weight_power t^average_power,  W += w
///   x += w / W (z - x)
///
/// with t = count + 1, in F32; z is x before the first update. z (NAME.z) and v have the
/// parameter's shape and dtype. The largest rate and W are in `schedule_free` F32 [2].
std::shared_ptr<const Optimizer> schedule_free(const ScheduleFreeOptions& options,
                                               Memory memory = Memory::DEVICE);

}  // namespace kinema::optimizers
