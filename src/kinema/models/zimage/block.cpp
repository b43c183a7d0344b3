#include "kinema/models/zimage/block.h"

#include <cmath>
#include <vector>

#include "kinema/nn/modulation.h"

namespace kinema::zimage {
namespace {

// Of the norms of queries and keys; the other norms have norm_eps.
constexpr double kHeadNormEpsilon = 1e-5;

nn::Linear into_heads(const nn::Params& params, const TransformerConfig& c) {
  return {params, c.dim, c.dim, {.out_axis = "heads", .in_axis = "embed", .bias = false}};
}

/// Initialised with zeros: blocks start as the identity, because of their gates. The reference has
/// no activation before it.
std::optional<nn::Linear> modulation(const nn::Params& params, const TransformerConfig& c,
                                     Block::Modulated modulated) {
  if (modulated == Block::Modulated::NO) {
    return std::nullopt;
  }
  return nn::Linear(
      params / "0", c.modulation_dim(), 4 * c.dim,
      {.out_axis = "mlp", .in_axis = "embed", .bias_axis = "mlp", .init = nn::Init::zeros()});
}

void offer(const BlockTap& tap, const char* name, Tensor value) {
  if (tap) {
    tap(name, value);
  }
}

/// Scales and gates of a block, [b, 1, d] each; empty without modulation.
struct Rows {
  Tensor attention_scale, attention_gate, feed_forward_scale, feed_forward_gate;
};

/// The norm scaled by 1 + scale, in x's dtype. In f32: small scales would vanish beside 1.
Tensor scaled_norm(const nn::RmsNorm& norm, Tensor x, Tensor scale, const BlockTap& tap = {}) {
  Tensor y = norm(x);
  offer(tap, "attention_norm1", y);
  if (scale) {
    y = y * (1.0 + nn::as(scale, y.dtype()));
  }
  return nn::as(y, x.dtype());
}

/// x + tanh(gate) * y for a norm's y in f32, or x + y, rounded once.
Tensor added(Tensor x, Tensor y, Tensor gate) {
  if (gate) {
    return nn::add_gated(x, y, tanh(nn::widened(gate)));
  }
  return nn::as(nn::as(x, y.dtype()) + y, x.dtype());
}

}  // namespace

// The quoted names are the keys of the released checkpoints in diffusers' naming.
Attention::Attention(const nn::Params& params, const TransformerConfig& c)
    : heads_(c.n_heads),
      query_(into_heads(params / "to_q", c)),
      key_(into_heads(params / "to_k", c)),
      value_(into_heads(params / "to_v", c)),
      norm_query_(params / "norm_q", c.head_dim(), kHeadNormEpsilon),
      norm_key_(params / "norm_k", c.head_dim(), kHeadNormEpsilon),
      out_(params / "to_out" / "0", c.dim, c.dim,
           {.out_axis = "embed", .in_axis = "heads", .bias = false}),
      quantized_((params / "attention_op").quantized()) {}

Tensor Attention::operator()(Tensor x, const Conditioning& given, const BlockTap& tap) const {
  const Precision precision = given.attention.precision;
  const auto heads = [&](const nn::Linear& layer) {
    const Tensor y = named(given.place.rounded(layer(x, precision)), kQueryKeyValue);
    return reshape(y, {y.dim(0), y.dim(1), heads_, y.dim(2) / heads_});
  };
  // The scale of the scores is applied with the norm of queries, in f32. If attention is quantized,
  // scores are scaled afterwards, because the codes depend on the magnitude.
  const Tensor raw = heads(query_);
  const double scale = 1.0 / std::sqrt(static_cast<double>(raw.dim(3)));
  const Tensor key = norm_key_(heads(key_));
  const Tensor value = heads(value_);
  if (tap) {
    offer(tap, "norm_q", norm_query_(raw));
    offer(tap, "norm_k", key);
  }
  nn::AttentionOptions how = given.attention;
  how.scale = quantized_ ? scale : 1.0;
  how.quantized = quantized_;
  const Tensor query = norm_query_(raw, quantized_ ? 1.0 : scale);
  const Tensor q = nn::as(nn::rotate(query, given.rope), x.dtype());
  const Tensor k = nn::as(nn::rotate(key, given.rope), x.dtype());
  const Tensor y =
      nn::attention(named(q, "query_proj"), named(k, "key_proj"), named(value, "value_proj"), how);
  const Tensor joined = named(reshape(named(y, "self_attn"), x.shape().dims), kAttentionOutput);
  const Tensor out = out_(joined, precision);
  offer(tap, "attention", out);
  return out;
}

FeedForward::FeedForward(const nn::Params& params, const TransformerConfig& c)
    : gate_(params / "w1", c.dim, c.mlp_dim(),
            {.out_axis = "mlp", .in_axis = "embed", .bias = false}),
      up_(params / "w3", c.dim, c.mlp_dim(),
          {.out_axis = "mlp", .in_axis = "embed", .bias = false}),
      down_(params / "w2", c.mlp_dim(), c.dim,
            {.out_axis = "embed", .in_axis = "mlp", .bias = false}) {}

Tensor FeedForward::operator()(Tensor x, const Conditioning& given) const {
  const Precision precision = given.attention.precision;
  const auto wide = [&](const nn::Linear& layer) {
    return given.place(layer(x, precision), {"activation_batch", "activation_length", "mlp"});
  };
  const Tensor gate = silu(nn::widened(wide(gate_)));
  const Tensor y = nn::as(gate * nn::widened(wide(up_)), x.dtype());
  return down_(given.place.rounded(named(y, "ffn_activation")), precision);
}

Block::Block(const nn::Params& params, const TransformerConfig& c, Modulated modulated)
    : modulation_(modulation(params / "adaLN_modulation", c, modulated)),
      attention_norm_(params / "attention_norm1", c.dim, c.norm_eps),
      attention_(params / "attention", c),
      attended_norm_(params / "attention_norm2", c.dim, c.norm_eps),
      feed_forward_norm_(params / "ffn_norm1", c.dim, c.norm_eps),
      feed_forward_(params / "feed_forward", c),
      fed_forward_norm_(params / "ffn_norm2", c.dim, c.norm_eps) {}

Tensor Block::operator()(Tensor x, const Conditioning& given, const BlockTap& tap) const {
  Graph& graph = x.graph();
  x = named(given.place(x, kTokenAxes), "hidden_states");
  Rows rows;
  if (modulation_) {
    const Tensor all = (*modulation_)(given.time, given.attention.precision);
    offer(tap, "adaLN_modulation", all);
    const std::vector<Tensor> parts = split(expand_dims(all, Axis(1)), Axis(2), 4);
    rows = {parts[0], parts[1], parts[2], parts[3]};
  }
  {
    const Scope scope(graph, "attention");
    const Tensor y = attended_norm_(
        attention_(scaled_norm(attention_norm_, x, rows.attention_scale, tap), given, tap));
    offer(tap, "attention_norm2", y);
    x = added(x, y, rows.attention_gate);
  }
  const Scope scope(graph, "feed_forward");
  const Tensor made =
      feed_forward_(scaled_norm(feed_forward_norm_, x, rows.feed_forward_scale), given);
  offer(tap, "feed_forward", made);
  const Tensor y = fed_forward_norm_(made);
  offer(tap, "ffn_norm2", y);
  return given.place(added(x, y, rows.feed_forward_gate), kTokenAxes);
}

}  // namespace kinema::zimage
