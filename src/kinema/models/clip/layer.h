#pragma once

#include "kinema/models/clip/config.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"
#include "kinema/nn/params.h"

namespace kinema::clip {

/// One layer of CLIP's text or vision model, on x [b, t, d]:
///
///   x += Attention(norm(x))
///   x += MLP(norm(x))
class Layer {
 public:
  Layer(const nn::Params& params, const LayerConfig& config);

  /// `bias`, if not empty, is added to the scores: f32, broadcasts to [b, heads, t, t].
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

/// The root of a model's keys: `prefix`, which may be empty.
nn::Params root(nn::Params::Source& source, const std::string& prefix);

/// The dtype in which a parameter is stored: norms f32, the rest `dtype`.
DType parameter_dtype(const std::string& key, DType dtype);

}  // namespace kinema::clip
