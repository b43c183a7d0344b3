#pragma once

#include <cstdint>
#include <string_view>

#include "kinema/graph/ops.h"
#include "kinema/graph/tensor.h"

namespace kinema::schedulers {

/// The distribution of u in training, from 0 (noise) to 1 (arXiv:2403.03206, section 3.1).
enum class Density {
  UNIFORM,
  LOGIT_NORMAL,  // u = 1 / (1 + exp(-(mean + std z))), z standard normal
  MODE,          // u = 1 - r - scale (cos^2(pi r / 2) - 1 + r), r uniform
};
/// `none`, `logit_normal` or `mode`, diffusers' names; throws an Error that lists them for another
/// name.
Density density_from_string(std::string_view name);

/// Weights of samples by their noise level.
enum class Weighting {
  BELL,        // Wan's, see FlowMatch::weight
  NONE,        // all equal
  SIGMA_SQRT,  // 1 / sigma^2, with sigma at least 1 / num_train_timesteps
  COSMAP,      // 2 / (pi (1 - 2 sigma + 2 sigma^2))
};

/// The inverse of the standard normal distribution function, accurate to 1e-6: maps numbers that
/// are evenly spread over [0, 1) to evenly spread quantiles.
double normal_quantile(double u);
Tensor normal_quantile(Tensor u);

/// The distribution of noise levels in training; the reference uses these values for any
/// `flow_shift`. Each formula exists for a number on the host and, element-wise, for a tensor
/// (F32).
struct FlowMatch {
  double shift = 3.0;
  double sigma_min = 0.003 / 1.002;  // sigma at t = 0
  double sigma_max = 1.0;            // sigma at t = num_train_timesteps
  double num_train_timesteps = 1000.0;
  Density density = Density::UNIFORM;
  double logit_mean = 0.0;
  double logit_std = 1.0;
  double mode_scale = 1.29;
  /// > 0: sigma, before the shift, is one of 1, 1 - 1/levels, ..., 1/levels.
  int64_t levels = 0;
  Weighting weighting = Weighting::BELL;

  /// u from a drawn number: standard normal for LOGIT_NORMAL, uniform in [0, 1) for the others.
  double density_of(double drawn) const;
  Tensor density_of(Tensor drawn) const;
  /// The argument of `timestep` for a u of the density: u itself for UNIFORM, else 1 - u, rounded
  /// to a level if there are levels.
  double level(double u) const;
  Tensor level(Tensor u) const;

  /// t = 1000 s u / (1 + (s - 1) u) for u uniform in [0, 1).
  double timestep(double u) const;
  Tensor timestep(Tensor u) const;
  /// The u of a timestep (the inverse of `timestep`).
  double uniform(double t) const;

  /// sigma = (1 - t/1000) sigma_min + (t/1000) sigma_max; t includes the shift.
  double sigma(double t) const;
  Tensor sigma(Tensor t) const;

  /// The sample's weight. BELL: w = 4.5603 (exp(-2 ((t - 500) / 1000)^2) - exp(-1/2)), at least 0:
  /// largest for middle noise levels, with mean 1 over the reference's grid of 1000 timesteps. It
  /// depends on t only, unlike MaxDiffusion's weight, which subtracts the minimum over the batch
  /// and is 0/0 for a batch of one.
  double weight(double t) const;
  Tensor weight(Tensor t) const;
};

/// Flux's defaults: one of a thousand noise levels, without shift and weights (diffusers,
/// train_dreambooth_lora_flux.py).
inline constexpr FlowMatch kFluxFlow{
    .shift = 1.0, .sigma_min = 0.0, .levels = 1000, .weighting = Weighting::NONE};

}  // namespace kinema::schedulers
