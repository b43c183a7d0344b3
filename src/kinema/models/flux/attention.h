#pragma once

#include <optional>
#include <string>

#include "kinema/mesh/placement.h"
#include "kinema/models/flux/config.h"
#include "kinema/nn/attention.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"
#include "kinema/nn/rope.h"

namespace kinema::flux {

/// Queries, keys and values [b, s, n, d / n] in the tokens' dtype; queries are not scaled.
struct Heads {
  Tensor query;
  Tensor key;
  Tensor value;
};

/// Called with an intermediate value and its name within the block.
using BlockTap = std::function<void(const char* name, Tensor value)>;

/// The projections of one stream for joint attention, with biases and an RMS norm over the channels
/// of each head of queries and keys. Image and text have one each, with other checkpoint keys.
class StreamProjections {
 public:
  struct Names {
    const char *query, *key, *value, *norm_query, *norm_key;
    const char* products;  // names of queries, keys and values before the norm, for remat policies
  };
  static constexpr Names kImage{"to_q", "to_k", "to_v", "norm_q", "norm_k", "img_qkv_proj"};
  static constexpr Names kText{"add_q_proj",   "add_k_proj",   "add_v_proj",
                               "norm_added_q", "norm_added_k", "txt_qkv_proj"};
  /// Image and text as a single stream.
  static constexpr Names kSingle{"to_q",   "to_k",   "to_v",
                                 "norm_q", "norm_k", "lin1_norm_hidden_states"};

  StreamProjections(const nn::Params& params, const Names& names, const TransformerConfig& config);

  /// x [b, s, d]; queries and keys in f32, normed, not rotated.
  Heads operator()(Tensor x, Precision precision, const mesh::Placement& place) const;

 private:
  int64_t heads_;
  const char* products_;
  nn::Linear query_;
  nn::Linear key_;
  nn::Linear value_;
  nn::RmsNorm norm_query_;
  nn::RmsNorm norm_key_;
};

/// Rotates queries and keys, then attends among all tokens.
class Attend {
 public:
  /// `params` is the attention module, whose products may be quantized.
  explicit Attend(const nn::Params& params) : quantized_((params / "attention_op").quantized()) {}

  /// -> [b, s, d] in the values' dtype.
  Tensor operator()(const Heads& heads, const nn::Rope& rope,
                    const nn::AttentionOptions& options) const;

 private:
  std::optional<nn::QuantizedProduct> quantized_;
};

/// `a` and `b` concatenated along the tokens.
Heads joined(const Heads& a, const Heads& b);

}  // namespace kinema::flux
