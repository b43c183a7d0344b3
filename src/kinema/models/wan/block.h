#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "kinema/models/wan/attention.h"
#include "kinema/nn/dropout.h"

namespace kinema::wan {

/// Logical axes of the tokens [b, s, d] between blocks.
inline constexpr std::array<std::string_view, 3> kTokenAxes = {
    "activation_batch", "activation_length", "activation_heads"};

/// Inputs of a block in addition to the video tokens.
struct Conditioning {
  Tensor
      time;  // f32 [b, 6, d], [1, 6, d], or [b, s, 6, d]: shift, scale, gate of attention, then FFN
  Tensor text;        // [b, t, d]
  Tensor image = {};  // [b, n, d] or empty
  /// Instead of text and image: this block's keys and values.
  std::optional<CrossKeys> keys = {};
  nn::Rope rope;
  nn::Dropout dropout = {};
  nn::Dropout low_rank_dropout = {};  // of the adapters' inputs
  nn::AttentionOptions attention = {};
  mesh::Placement place = {};
  /// Classifier-free guidance batch: the second half of x equals the first, so the first
  /// self-attention is computed for one half.
  bool cfg_batch = false;
};

/// One Wan DiT block, on tokens x of shape [b, s, d]:
///
///   x += gate_a * SelfAttention(modulate(norm(x), shift_a, scale_a))
///   x += CrossAttention(norm(x), text)
///   x += gate_f * MLP(modulate(norm(x), shift_f, scale_f))
class Block {
 public:
  Block(const nn::Params& params, const TransformerConfig& config);
  /// `tap`, if not empty, is called with the block's names "attn1", "norm2", ....
  Tensor operator()(Tensor x, const Conditioning& given, const BlockTap& tap = {}) const;
  /// The keys and values that the block computes from this text and image.
  CrossKeys cross_keys(Tensor text, Tensor image, Precision precision) const {
    return cross_attention_.keys(text, image, precision);
  }

 private:
  Tensor mlp(Tensor x, const Conditioning& given) const;

  double eps_;
  Tensor modulation_;  // [1, 6, d]
  SelfAttention self_attention_;
  std::optional<nn::LayerNorm> cross_norm_;
  CrossAttention cross_attention_;
  nn::Linear ffn_up_;
  nn::Linear ffn_down_;
};

}  // namespace kinema::wan
