#pragma once

#include <cstdint>

#include "kinema/graph/ops.h"

namespace kinema::training {

/// An average of the parameters, e' = d e + (1 - d) p, that follows quickly at first: after update
/// n, with s = n - update_after_step - 1,
///
///     d = min(decay, (1 + s) / (10 + s))
///     d = min(decay, 1 - (1 + s / inv_gamma)^-power)    with warmup
///
/// and d = 0 for s <= 0, where the average equals the parameters. Source: diffusers EMAModel; its
/// scripts set update_after_step to 0.
struct Ema {
  double decay = 0.0;  // 0: no average
  int64_t update_after_step = -1;
  bool warmup = false;
  double inv_gamma = 1.0;
  double power = 2.0 / 3.0;

  bool is_on() const { return decay > 0.0; }
  /// d after update n, for a number and for an F32 scalar.
  double decay_at(int64_t n) const;
  Tensor decay_at(Tensor n) const;
};

}  // namespace kinema::training
