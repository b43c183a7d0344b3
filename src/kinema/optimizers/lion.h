#pragma once

#include <memory>

#include "kinema/optimizers/optimizer.h"

namespace kinema::optimizers {

struct LionOptions {
  double b1 = 0.9;   // of the update
  double b2 = 0.99;  // of the momentum
  double weight_decay = 0.0;
  /// As AdamWOptions::decay_min_rank.
  int64_t decay_min_rank = 0;
};

/// Lion (arXiv:2302.06675): half of AdamW's memory. Its updates are signs, so its learning rate is
/// 3 to 10 times lower than AdamW's, and its weight decay as many times higher.
///
///   p -= rate (sign(b1 m + (1 - b1) g) + weight_decay p)
///   m  = b2 m + (1 - b2) g
///
/// in F32; m has the parameter's shape and dtype.
std::shared_ptr<const Optimizer> lion(const LionOptions& options, Memory memory = Memory::DEVICE);

/// The same with m stored as signed bytes in blocks (block_quantization.h), as bitsandbytes'
/// Lion8bit; m of tensors with fewer than 4096 elements is F32.
std::shared_ptr<const Optimizer> lion_8bit(const LionOptions& options,
                                           Memory memory = Memory::DEVICE);

}  // namespace kinema::optimizers
