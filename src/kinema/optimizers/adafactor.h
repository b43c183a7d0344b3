#pragma once

#include <cstdint>
#include <memory>

#include "kinema/optimizers/optimizer.h"

namespace kinema::optimizers {

struct AdafactorOptions {
  /// Decay of a first moment; 0: no first moment.
  double b1 = 0.0;
  /// The second moment's decay at update t is 1 - t^-decay_power.
  double decay_power = 0.8;
  /// Added to squares of gradients.
  double eps = 1e-30;
  /// The maximum root mean square of an update, before the learning rate.
  double clip = 1.0;
  /// Multiply the learning rate by max(min_scale, rms(p)).
  bool scale_parameter = false;
  double min_scale = 1e-3;
  double weight_decay = 0.0;
  /// As AdamWOptions::decay_min_rank.
  int64_t decay_min_rank = 0;
};

/// Adafactor (arXiv:1804.04235) as transformers has it. Its rate without a given one
/// (relative_step, warmup_init) is Schedule::relative_step.
///
///   rate = given rate, or with scale_parameter times max(min_scale, rms(p))
///   g = clip(gradient),  b = 1 - t^-decay_power
///   R = b R + (1 - b) mean over columns of g^2 + eps,   C likewise over rows
///   u = g / sqrt(R C / mean(R))
///   u = u / max(1, rms(u) / clip),   m = b1 m + (1 - b1) rate u
///   p -= rate weight_decay p + m
///
/// with t = count + 1, in F32. The mean squares of a tensor are stored factored over its last two
/// axes: row means NAME.row and column means NAME.col, F32. Other axes are separate tensors, except
/// for rms, which is over all of them. Tensors with one axis store all mean squares, F32. Without
/// b1 there is no m: rate u is subtracted. m has the parameter's dtype.
std::shared_ptr<const Optimizer> adafactor(const AdafactorOptions& options,
                                           Memory memory = Memory::DEVICE);

}  // namespace kinema::optimizers
