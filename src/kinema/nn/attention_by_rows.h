#pragma once

#include "kinema/graph/ops.h"

namespace kinema::nn {

/// Attention among the pixels of an image, for autoencoders: q, k, v [b, s, n, d] -> [b, s, n, d].
/// Computed for a few queries at a time, with at most `most_scores` scores in memory: the scores of
/// all pixels would be larger than all other values together.
Tensor attention_by_rows(Tensor q, Tensor k, Tensor v, Precision precision,
                         int64_t most_scores = int64_t{1} << 24);

}  // namespace kinema::nn
