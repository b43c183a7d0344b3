#pragma once

#include "kinema/graph/ops.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/params.h"

namespace kinema::nn {

/// cos(t w_i) for i < dim / 2, then sin(t w_i), with w_i = 10000^(-2 i / dim): t [...], any numeric
/// dtype -> f32 [..., dim]. Throws an Error when dim is odd.
Tensor sinusoid(Tensor t, int64_t dim);

/// Two linear layers, `linear_1` and `linear_2`, with an activation between them: the embedding of
/// timestep, text and guidance in diffusion networks.
class EmbeddingMlp {
 public:
  EmbeddingMlp(const Params& params, int64_t in, int64_t dim, const Init& init);

  /// [..., in] -> [..., dim] in x's dtype.
  Tensor operator()(Tensor x, Tensor (*activation)(Tensor), Precision precision) const;

 private:
  Linear linear_1_;
  Linear linear_2_;
};

}  // namespace kinema::nn
