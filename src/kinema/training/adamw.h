#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/nn/params.h"

namespace kinema::training {

struct AdamWOptions {
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;
  /// Decoupled: added to the update, not to the gradient.
  double weight_decay = 0.0;
  /// Tensors of lower rank (of one layer) are not decayed: 2 spares biases and norm weights, 0
  /// decays every parameter as the reference does.
  int64_t decay_min_rank = 0;
  /// Limits every element of a gradient to +- this; before the norm is limited.
  std::optional<double> max_value = {};
  /// Limits the L2 norm of all gradients together.
  std::optional<double> max_norm = {};
};

/// What the optimizer keeps: one entry per parameter, F32 or narrower, and the number of updates
/// made (S32 scalar).
struct AdamWState {
  std::vector<Tensor> params;
  std::vector<Tensor> mu;
  std::vector<Tensor> nu;
  Tensor count;
};

/// Of every gradient, F32 vectors with one entry per parameter, and one per layer of a stacked
/// parameter, in order. A non-finite gradient gives non-finite entries.
struct GradientSizes {
  Tensor squares;  // sums of squares, of elements limited to +- max_value where it is given
  Tensor largest;  // magnitudes of elements as they are
};
GradientSizes gradient_sizes(std::span<const nn::ParamSpec> specs,
                             std::span<const Tensor> gradients,
                             std::optional<double> max_value = {});

/// Sum of a vector F32 [n].
Tensor total(Tensor x);

/// One update:
///
///   g  = clip(gradient),  m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
///   p -= learning_rate (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay p)
///
/// with t = count + 1, in F32, each result rounded once to the dtype it is kept in. `gradients` may
/// have any float dtype; `learning_rate` is an F32 scalar and `norm` the L2 norm of all gradients
/// before clipping (F32 scalar). Where `ok` (pred scalar) is given and false, every result is the
/// old value.
AdamWState adamw(const AdamWState& state, std::span<const nn::ParamSpec> specs,
                 std::span<const Tensor> gradients, Tensor norm, Tensor learning_rate,
                 const AdamWOptions& options, Tensor ok = {});

}  // namespace kinema::training
