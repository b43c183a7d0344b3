#pragma once

#include "kinema/models/clip/config.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"
#include "kinema/nn/params.h"

namespace kinema::clip {

/// One layer of either side of CLIP, on x [b, t, d]:
///
///   x += Attention(norm(x))
///   x += MLP(norm(x))
class Layer {
 public:
  Layer(const nn::Params& params, const LayerConfig& config);

  /// `bias`, where given, is added to the scores: f32, broadcasts to [b, heads, t, t].
  Tensor operator()(Tensor x, Tensor bias, Precision precision) const;

 private:
  /// [b, t, d] -> [b, t, n, d / n].
  Tensor heads(Tensor x) const;

  int64_t heads_;
  Activation activation_;
  nn::LayerNorm norm1_;
  nn::Linear q_, k_, v_, out_;
  nn::LayerNorm norm2_;
  nn::Linear up_, down_;
};

/// Where the keys of a side of CLIP begin: nothing where `prefix` is empty.
nn::Params root(nn::Params::Source& source, const std::string& prefix);

/// What a parameter is kept in: norms in f32, the rest in `dtype`.
DType parameter_dtype(const std::string& key, DType dtype);

}  // namespace kinema::clip
