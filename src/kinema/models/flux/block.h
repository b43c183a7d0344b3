#pragma once

#include <array>
#include <string_view>

#include "kinema/models/flux/attention.h"

namespace kinema::flux {

/// Logical axes of tokens [b, s, d] between blocks.
inline constexpr std::array<std::string_view, 3> kTokenAxes = {
    "activation_batch", "activation_length", "activation_heads"};

/// Inputs of a block in addition to the tokens.
struct Conditioning {
  Tensor temb;    // silu of TimeTextEmbedding::Result::sum, [b, d] in the tokens' dtype
  nn::Rope rope;  // of text and image tokens together, text first
  nn::AttentionOptions attention = {};
  mesh::Placement place = {};
};

/// Linear, GELU (tanh), linear.
class FeedForward {
 public:
  FeedForward(const nn::Params& params, const TransformerConfig& config);

  /// x [b, s, d] -> [b, s, d].
  Tensor operator()(Tensor x, const Conditioning& given, const BlockTap& tap = {}) const;

 private:
  nn::Linear up_;
  nn::Linear down_;
};

/// Image and text as two streams with separate weights and joint attention:
///
///   x += gate_a * Attention([text, image])       of modulate(norm(x), shift_a, scale_a)
///   x += gate_f * MLP(modulate(norm(x), shift_f, scale_f))
///
/// and the same for the text c.
class DoubleBlock {
 public:
  DoubleBlock(const nn::Params& params, const TransformerConfig& config);

  struct Streams {
    Tensor image;  // [b, s, d]
    Tensor text;   // [b, t, d]
  };
  Streams operator()(Streams x, const Conditioning& given, const BlockTap& tap = {}) const;

 private:
  nn::Linear modulation_;
  nn::Linear text_modulation_;
  StreamProjections project_;
  StreamProjections text_project_;
  Attend attend_;
  nn::Linear out_;
  nn::Linear text_out_;
  FeedForward feed_forward_;
  FeedForward text_feed_forward_;
};

/// Text and image tokens h [b, t + s, d] as one stream, attention and MLP in parallel:
///
///   y = modulate(norm(h), shift, scale);  h += gate * W [Attention(y), gelu(MLP(y))]
class SingleBlock {
 public:
  SingleBlock(const nn::Params& params, const TransformerConfig& config);

  Tensor operator()(Tensor h, const Conditioning& given, const BlockTap& tap = {}) const;

 private:
  nn::Linear modulation_;
  StreamProjections project_;
  Attend attend_;
  nn::Linear mlp_;
  nn::Linear out_;
};

}  // namespace kinema::flux
