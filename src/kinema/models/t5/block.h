#pragma once

#include <functional>

#include "kinema/models/t5/config.h"
#include "kinema/nn/norm.h"
#include "kinema/nn/params.h"

namespace kinema::t5 {

/// x W^T for a weight [out, in]; neither T5 v1.1 nor UMT5 has biases.
class Projection {
 public:
  Projection(const nn::Params& params, int64_t in, int64_t out, const char* in_axis,
             const char* out_axis);

  /// [..., in] -> [..., out] in x's dtype, to which the weight is rounded first.
  Tensor operator()(Tensor x, Precision precision) const;

 private:
  Tensor weight_;
};

/// Inputs of a block in addition to the tokens.
struct BlockInputs {
  /// f32 [b, 1, 1, t]: added to the scores; a large negative value masks padding. Empty: no
  /// position is masked.
  Tensor mask = {};
  Tensor bias_table = {};  // [buckets, heads], if the blocks share one
  Precision precision = Precision::DEFAULT;
  /// Attention computes heads in groups whose scores stay below this.
  int64_t scores_bytes = 0;
  /// If not empty, called with the layer's position bias, f32 [1, heads, t, t].
  std::function<void(Tensor bias)> bias_tap = {};
};

/// The table of the position bias [buckets, heads] of an attention module.
Tensor relative_bias_table(const nn::Params& attention, const EncoderConfig& config);

/// softmax(q k^T + bias + mask) v of every head, without 1 / sqrt(d), then the output projection.
class SelfAttention {
 public:
  SelfAttention(const nn::Params& params, const EncoderConfig& config);

  /// [b, t, d] -> [b, t, d].
  Tensor operator()(Tensor x, const BlockInputs& given) const;

 private:
  Tensor heads(Tensor x) const;

  Tensor all_heads(Tensor q, Tensor k, Tensor v, Tensor table, const BlockInputs& given) const;
  Tensor in_groups(Tensor q, Tensor k, Tensor v, Tensor table, int64_t groups,
                   const BlockInputs& given) const;

  int64_t groups(int64_t b, int64_t t, int64_t scores_bytes) const;

  EncoderConfig config_;
  Projection q_;
  Projection k_;
  Projection v_;
  Projection o_;
  Tensor bias_table_;  // empty if the blocks share one
};

/// wo(gelu_tanh(wi_0 x) * wi_1 x)
class GatedFeedForward {
 public:
  GatedFeedForward(const nn::Params& params, const EncoderConfig& config);

  /// [b, t, d] -> [b, t, d].
  Tensor operator()(Tensor x, Precision precision) const;

 private:
  Projection gate_;
  Projection value_;
  Projection out_;
};

/// One encoder block on x [b, t, d]:
///
///   x += SelfAttention(rms_norm(x))
///   x += GatedFeedForward(rms_norm(x))
class Block {
 public:
  Block(const nn::Params& params, const EncoderConfig& config);

  Tensor operator()(Tensor x, const BlockInputs& given) const;

 private:
  nn::RmsNorm attention_norm_;
  SelfAttention attention_;
  nn::RmsNorm feed_forward_norm_;
  GatedFeedForward feed_forward_;
};

}  // namespace kinema::t5
