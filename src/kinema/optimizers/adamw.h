#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kinema/optimizers/optimizer.h"

namespace kinema::optimizers {

struct AdamWOptions {
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;
  /// Decoupled: added to the update, not to the gradient.
  double weight_decay = 0.0;
  /// Tensors of lower rank (per layer) get no weight decay: 2 excludes biases and norm weights, 0
  /// decays every parameter as in the reference.
  int64_t decay_min_rank = 0;
  /// Clips every element of a gradient to +- this, before the norm is clipped.
  std::optional<double> max_value = {};
  /// Clips the global L2 norm of the gradients.
  std::optional<double> max_norm = {};

  GradientLimits limits() const { return {.max_value = max_value, .max_norm = max_norm}; }
};

using AdamWState = OptimizerState;

/// with t = count + 1, in F32, each result rounded once to the dtype in which it is stored. m and v
/// have the parameter's shape and dtype.
std::shared_ptr<const Optimizer> adamw(const AdamWOptions& options, Memory memory = Memory::DEVICE);

/// AdamW with m and v stored as bytes in blocks (block_quantization.h), m signed and v unsigned:
/// each update computes with their F32 values and rounds them to bytes again. Moments of tensors
/// with fewer than 4096 elements stay F32. This is bitsandbytes' AdamW8bit (arXiv:2110.02861;
/// github.com/bitsandbytes-foundation/bitsandbytes).
std::shared_ptr<const Optimizer> adamw_8bit(const AdamWOptions& options,
                                            Memory memory = Memory::DEVICE);

/// One AdamW update, see `update`.
AdamWState adamw(const AdamWState& state, std::span<const nn::ParamSpec> specs,
                 std::span<const Tensor> gradients, Tensor norm, Tensor learning_rate,
                 const AdamWOptions& options, Tensor ok = {});

}  // namespace kinema::optimizers
