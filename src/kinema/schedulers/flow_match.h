#pragma once

#include "kinema/graph/ops.h"
#include "kinema/graph/tensor.h"

namespace kinema::schedulers {

/// How training draws noise levels; the reference trains with these whatever `flow_shift` is.
/// Every formula exists for one number on the host and, element-wise, for a tensor (F32).
struct FlowMatch {
  double shift = 3.0;
  double sigma_min = 0.003 / 1.002;  // sigma at t = 0
  double sigma_max = 1.0;            // sigma at t = num_train_timesteps
  double num_train_timesteps = 1000.0;

  /// t = 1000 s u / (1 + (s - 1) u) for u uniform in [0, 1).
  double timestep(double u) const;
  Tensor timestep(Tensor u) const;
  /// The u of a timestep.
  double uniform(double t) const;

  /// sigma = (1 - t/1000) sigma_min + (t/1000) sigma_max; t already carries the shift.
  double sigma(double t) const;
  Tensor sigma(Tensor t) const;

  /// w = 4.5603 (exp(-2 ((t - 500) / 1000)^2) - exp(-1/2)), at least 0: middle noise levels count
  /// most, the mean over the reference's grid of 1000 timesteps is 1. A function of t alone, unlike
  /// MaxDiffusion's, which subtracts the minimum over the batch and is 0/0 for a batch of one.
  double weight(double t) const;
  Tensor weight(Tensor t) const;
};

}  // namespace kinema::schedulers
