#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "kinema/mesh/placement.h"
#include "kinema/models/unet/config.h"
#include "kinema/nn/attention.h"
#include "kinema/nn/conv.h"
#include "kinema/nn/layers.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"

namespace kinema::unet {

/// Called with an intermediate value and its name within the part.
using PartTap = std::function<void(const std::string& name, Tensor value)>;

/// Keys and values of the text, [b, t, n, d / n]: they are the same in all steps.
struct TextKeys {
  Tensor key;
  Tensor value;
};

/// Inputs of a transformer in addition to its tokens.
struct TransformerOptions {
  nn::AttentionOptions self_attention = {};
  nn::AttentionOptions cross_attention = {};
  mesh::Placement place = {};
  nn::Bound::Options layers = {};
};

/// Multi-head attention whose query, key and value projections have no biases.
class Attention {
 public:
  /// `context` is the width of the states from which keys and values are computed.
  Attention(const nn::Params& params, int64_t dim, int64_t heads, int64_t context);

  TextKeys keys(Tensor context, Precision precision) const;
  /// x [b, s, d] -> [b, s, d].
  Tensor operator()(Tensor x, const TextKeys& keys, const nn::AttentionOptions& options) const;

 private:
  int64_t heads_;
  std::optional<nn::QuantizedProduct> quantized_;
  nn::Linear to_q_;
  nn::Linear to_k_;
  nn::Linear to_v_;
  nn::Linear to_out_;
};

/// One block on tokens x [b, s, d]:
///
///   x += SelfAttention(norm(x));  x += CrossAttention(norm(x), text);  x += GEGLU(norm(x))
class TransformerBlock {
 public:
  TransformerBlock(const nn::Params& params, int64_t dim, int64_t heads, const UNetConfig& config);

  Tensor operator()(Tensor x, const TextKeys& keys, const TransformerOptions& given,
                    const PartTap& tap = {}) const;
  /// text [b, t, cross_attention_dim].
  TextKeys text_keys(Tensor text, Precision precision) const {
    return attn2_.keys(text, precision);
  }

 private:
  Tensor feed_forward(Tensor x, const TransformerOptions& given, const PartTap& tap) const;

  nn::LayerNorm norm1_;
  Attention attn1_;
  nn::LayerNorm norm2_;
  Attention attn2_;
  nn::LayerNorm norm3_;
  nn::Linear up_;
  nn::Linear down_;
};

/// The position of a transformer in the network, and its sizes.
struct TransformerSpec {
  std::string path;  // `mid_block.attentions.0`
  int64_t channels = 0;
  int64_t heads = 0;
  int64_t layers = 0;

  nn::Layers blocks() const { return {path + ".transformer_blocks", layers}; }
};

/// A transformer over the pixels of a feature map, added to the map. This class holds the
/// parameters around the blocks.
class SpatialTransformer {
 public:
  SpatialTransformer(const nn::Params& params, const TransformerSpec& place,
                     const UNetConfig& config);

  /// x [b, c, h, w]; `keys` are those of all blocks, with a leading axis of layers.
  Tensor operator()(Tensor x, nn::Bound& bound, const TextKeys& keys, const UNetConfig& config,
                    const TransformerOptions& given, const PartTap& tap = {}) const;

 private:
  /// On tokens, or on feature maps (use_linear_projection).
  using Projection = std::variant<nn::Linear, nn::Conv2d>;
  static Projection projection(const nn::Params& params, int64_t channels, const UNetConfig& c,
                               const nn::LinearOptions& options);

  TransformerSpec place_;
  nn::GroupNorm norm_;
  Projection proj_in_;
  Projection proj_out_;
};

}  // namespace kinema::unet
