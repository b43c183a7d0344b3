#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kinema/training/optimizer.h"

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

  GradientLimits limits() const { return {.max_value = max_value, .max_norm = max_norm}; }
};

using AdamWState = OptimizerState;

/// AdamW (arXiv:1711.05101):
///
///   g  = clip(gradient),  m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
///   p -= learning_rate (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay p)
///
/// with t = count + 1, in F32, each result rounded once to the dtype it is kept in. m and v are
/// kept in the parameter's shape and dtype.
std::shared_ptr<const Optimizer> adamw(const AdamWOptions& options, Memory memory = Memory::DEVICE);

/// AdamW of which m and v are kept as bytes in blocks (block_quantization.h), m with a sign and v
/// without: each update computes with their values in F32 and rounds them to bytes again. Those of
/// a tensor of fewer than 4096 elements stay F32. This is bitsandbytes' AdamW8bit
/// (arXiv:2110.02861; github.com/bitsandbytes-foundation/bitsandbytes).
std::shared_ptr<const Optimizer> adamw_8bit(const AdamWOptions& options,
                                            Memory memory = Memory::DEVICE);

/// One update by AdamW, see `update`.
AdamWState adamw(const AdamWState& state, std::span<const nn::ParamSpec> specs,
                 std::span<const Tensor> gradients, Tensor norm, Tensor learning_rate,
                 const AdamWOptions& options, Tensor ok = {});

}  // namespace kinema::training
