#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string_view>

#include "kinema/mesh/placement.h"
#include "kinema/models/zimage/config.h"
#include "kinema/nn/attention.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"
#include "kinema/nn/rope.h"

namespace kinema::zimage {

/// Logical axes of tokens [b, s, d] between blocks.
inline constexpr std::array<std::string_view, 3> kTokenAxes = {
    "activation_batch", "activation_length", "activation_heads"};

/// Names of values for remat policies.
inline constexpr const char* kQueryKeyValue = "qkv_proj";
inline constexpr const char* kAttentionOutput = "attn_output";

/// Called with an intermediate value and its name within the block.
using BlockTap = std::function<void(const char* name, Tensor value)>;

/// Inputs of a block in addition to the tokens.
struct Conditioning {
  Tensor time = {};  // of TimeEmbedding, [b, modulation_dim]; not read by blocks without modulation
  nn::Rope rope;     // of the tokens
  nn::AttentionOptions attention = {};  // its bias masks what is behind a sample's tokens
  mesh::Placement place = {};
};

/// Attention among all tokens: queries, keys and values without biases, an RMS norm over the
/// channels of each head of queries and keys, the rotation, and the output projection.
class Attention {
 public:
  Attention(const nn::Params& params, const TransformerConfig& config);

  /// [b, s, d] -> [b, s, d].
  Tensor operator()(Tensor x, const Conditioning& given, const BlockTap& tap = {}) const;

 private:
  int64_t heads_;
  nn::Linear query_;
  nn::Linear key_;
  nn::Linear value_;
  nn::RmsNorm norm_query_;
  nn::RmsNorm norm_key_;
  nn::Linear out_;
  std::optional<nn::QuantizedProduct> quantized_;
};

/// w2(silu(w1 x) * w3 x)
class FeedForward {
 public:
  FeedForward(const nn::Params& params, const TransformerConfig& config);

  /// [b, s, d] -> [b, s, d].
  Tensor operator()(Tensor x, const Conditioning& given) const;

 private:
  nn::Linear gate_;
  nn::Linear up_;
  nn::Linear down_;
};

/// Norms before and after attention and feed-forward layer. With the four rows of the modulation,
///
///   x += tanh(g1) * norm(Attention(norm(x) * (1 + s1)))
///   x += tanh(g2) * norm(FeedForward(norm(x) * (1 + s2)))
///
/// and without modulation the same with scales 0 and gates 1.
class Block {
 public:
  enum class Modulated : bool { NO, YES };
  Block(const nn::Params& params, const TransformerConfig& config, Modulated modulated);

  /// [b, s, d] -> [b, s, d].
  Tensor operator()(Tensor x, const Conditioning& given, const BlockTap& tap = {}) const;

 private:
  std::optional<nn::Linear> modulation_;
  nn::RmsNorm attention_norm_;
  Attention attention_;
  nn::RmsNorm attended_norm_;
  nn::RmsNorm feed_forward_norm_;
  FeedForward feed_forward_;
  nn::RmsNorm fed_forward_norm_;
};

}  // namespace kinema::zimage
