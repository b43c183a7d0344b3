#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kinema/optimizers/optimizer.h"

namespace kinema::optimizers {

struct LaPropOptions {
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-20;
  /// Adaptive gradient clipping (arXiv:2102.06171) of each tensor as a whole: the gradient's norm
  /// is at most this part of the parameter's, which counts as 1e-3 at least. 0: none.
  double agc = 0.3;
  bool nesterov = false;
  /// Decoupled, of the parameters that `decays` holds for; all where it is empty.
  double weight_decay = 0.0;
  std::function<bool(const nn::ParamSpec& spec)> decays = {};
};

/// LaProp (arXiv:2002.04839): the momentum is that of gradients already divided by the root of
/// their squares' mean.
///
///   g  = gradient / max(1, |gradient| / (agc max(1e-3, |p|)))
///   v  = b2 v + (1 - b2) g^2,    u = g / (sqrt(v / (1 - b2^t)) + eps)
///   m  = b1 m + (1 - b1) u
///   p -= learning_rate (m / (1 - b1^t) + weight_decay p)
///
/// with t = count + 1, in F32; norms are those of a whole tensor, of one layer of a stack. m and v
/// are kept in the parameter's shape and dtype. With nesterov, b1 m + (1 - b1) u stands for m in
/// the last line.
std::shared_ptr<const Optimizer> laprop(const LaPropOptions& options,
                                        Memory memory = Memory::DEVICE);

/// A state after one update, and what was added to each parameter.
struct LaPropStep {
  OptimizerState state;
  std::vector<Tensor> changes;
};

/// One update by LaProp. `learning_rate` is an F32 scalar.
LaPropStep laprop(const OptimizerState& state, std::span<const nn::ParamSpec> specs,
                  std::span<const Tensor> gradients, Tensor learning_rate,
                  const LaPropOptions& options);

/// Root mean square of all elements of all tensors, F32; `norm` without the mean.
Tensor root_mean_square(std::span<const Tensor> tensors);
Tensor norm(std::span<const Tensor> tensors);

/// A learning rate by the number of updates already made: linear from 0 over `warmup` of them, so
/// that the first has the rate 0; then constant, or falling until update `anneal`.
struct AnnealedRate {
  enum class Kind : uint8_t { CONST, LINEAR, COSINE };
  double learning_rate = 4e-5;
  int64_t warmup = 1000;
  int64_t anneal = 0;
  Kind kind = Kind::CONST;

  /// LINEAR ends at a tenth of the rate. COSINE ends, as the original's configuration does, at a
  /// tenth of the rate's square: as good as 0.
  double operator()(int64_t updates) const;
};

}  // namespace kinema::optimizers
