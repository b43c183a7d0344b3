#pragma once

#include "kinema/graph/emit.h"

namespace kinema::interpreter {

/// Does what `lowering` does, and writes each call of cuDNN's attention as what cuDNN documents of
/// it, in plain operations: backward, delta is formed from y and dy, and the gradients have q's
/// dtype. Rows that do not count are NaN where nothing is promised of them.
///
/// Throws an Error for a call that XLA or cuDNN would not take: operands, shapes, layouts and the
/// configuration are checked.
Lowering with_cudnn(Lowering lowering);

}  // namespace kinema::interpreter
