#pragma once

#include <memory>

#include "kinema/optimizers/optimizer.h"

namespace kinema::optimizers {

struct CameOptions {
  double b1 = 0.9;     // of the momentum
  double b2 = 0.999;   // of squared gradients
  double b3 = 0.9999;  // of squared distances of updates to the momentum
  /// Added to squares of gradients, and to squares of distances.
  double eps = 1e-30;
  double distance_eps = 1e-16;
  /// The maximum root mean square of an update, before the learning rate.
  double clip = 1.0;
  double weight_decay = 0.0;
  /// As AdamWOptions::decay_min_rank.
  int64_t decay_min_rank = 0;
};

/// CAME (arXiv:2307.02047): Adafactor with a momentum, whose elements count less the more updates
/// differ from it.
///
///   V = b2 V + (1 - b2) (g^2 + eps),                 u = g / sqrt(V),  u = u / max(1, rms(u) /
///   clip) m = b1 m + (1 - b1) u S = b3 S + (1 - b3) ((u - m)^2 + distance_eps),  p -= rate
///   (weight_decay p + m / sqrt(S))
///
/// in F32. V and S are factored (factored.h); tensors with one axis have no S, and m stands for
/// m / sqrt(S). m has the parameter's shape and dtype.
std::shared_ptr<const Optimizer> came(const CameOptions& options, Memory memory = Memory::DEVICE);

}  // namespace kinema::optimizers
