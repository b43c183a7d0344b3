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

  /// [..., in] -> [..., out] in x's dtype, which the weight is rounded to first.
  Tensor operator()(Tensor x, Precision precision) const;

 private:
  Tensor weight_;
};

/// What a block is told beside the tokens.
struct BlockInputs {
  /// f32 [b, 1, 1, t]: added to the scores; very negative where there is no token. Empty: every
  /// position is one.
  Tensor mask = {};
  Tensor bias_table = {};  // [buckets, heads], where the blocks share one
  Precision precision = Precision::DEFAULT;
  /// Heads are taken in groups whose scores stay below this.
  int64_t scores_bytes = 0;
  /// May be empty; is called with the layer's position bias, f32 [1, heads, t, t].
  std::function<void(Tensor bias)> bias_tap = {};
};

/// The table of the position bias [buckets, heads] at the place of an attention.
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
  Tensor bias_table_;  // empty where the blocks share one
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
