#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "kinema/optimizers/optimizer.h"

namespace kinema::optimizers {

struct ProdigyOptions {
  double b1 = 0.9;
  double b2 = 0.999;
  /// Decay of the sums that estimate d; 0: sqrt(b2).
  double b3 = 0.0;
  double eps = 1e-8;
  /// Decoupled, times d and the learning rate.
  double weight_decay = 0.0;
  /// As AdamWOptions::decay_min_rank.
  int64_t decay_min_rank = 0;
  /// The first d.
  double d0 = 1e-6;
  /// Multiplies estimates of d.
  double d_coef = 1.0;
  /// The largest factor by which d grows in one update.
  double growth_rate = std::numeric_limits<double>::infinity();
  /// Adam's corrections of the moments, as a factor of the rate.
  bool bias_correction = false;
  /// Leave the learning rate out of the estimate's denominator, so that a warmup does not raise d.
  bool safeguard_warmup = false;
};

/// Prodigy (arXiv:2306.06101), AdamW that estimates its learning rate d, as prodigyopt 1.1.2. A
/// learning rate of 1 means d itself; a schedule multiplies it.
///
///   c = d rate sqrt(1 - b2^t) / (1 - b1^t), or d rate without bias_correction
///   m = b1 m + (1 - b1) d g,  v = b2 v + (1 - b2) (d g)^2
///   s = b3 s + d / d0 c g                      (safeguard_warmup: d / d0 d g)
///   r = b3 r + d / d0 c sum(g (p0 - p))        over all parameters
///   d' = max(d, min(growth_rate d, the largest d_coef r / sum|s| so far))
///   p -= c (m / (sqrt(v) + d' eps) + weight_decay p)
///
/// with t = count + 1, in F32; p0 are the parameters before the first update. At a rate of 0,
/// nothing changes. m, v, s (NAME.sum) and p0 (NAME.initial) have the parameter's shape and dtype.
/// d, its largest estimate and r are in `prodigy` F32 [3], shared by all parameters.
std::shared_ptr<const Optimizer> prodigy(const ProdigyOptions& options,
                                         Memory memory = Memory::DEVICE);

}  // namespace kinema::optimizers
