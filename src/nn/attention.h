#pragma once

#include "graph/ops.h"

namespace kinema::nn {

enum class AttentionKind {
  DOT_PRODUCT,  // all scores at once
  FLASH,        // by a kernel that keeps few of them, where the target has one
};

struct AttentionOptions {
  AttentionKind kind = AttentionKind::DOT_PRODUCT;
  Precision precision = Precision::DEFAULT;
  /// Factor of the scores; 0 stands for 1 / sqrt(d).
  double scale = 0.0;
  /// Added to the scaled scores where given: f32, broadcasts to [b, n, s, t].
  Tensor bias = {};
};

/// softmax(scale q k^T + bias) v for each head, softmax in f32 (f64 for f64).
///
/// q [b, s, n, d], k and v [b, t, n, d] -> [b, s, n, d] in q's dtype. Throws an Error naming the
/// shapes when they do not fit.
Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options);

}  // namespace kinema::nn
