#pragma once

#include "kinema/graph/emit.h"

namespace kinema::interpreter {

/// Lowers as `lowering`, and replaces each call of cuDNN's attention by plain operations as cuDNN
/// documents it: the backward pass computes delta from y and dy, and gradients have q's dtype.
/// Masked rows are NaN where nothing is guaranteed.
///
/// Throws an Error for a call that XLA or cuDNN would refuse: operands, shapes, layouts and the
/// configuration are checked.
Lowering with_cudnn(Lowering lowering);

}  // namespace kinema::interpreter
