#include "kinema/models/qwen3/block.h"

#include "kinema/nn/attention.h"
#include "kinema/nn/rope.h"

namespace kinema::qwen3 {
namespace {

constexpr double kMasked = -1e30;  // far below any score

nn::Linear linear(const nn::Params& params, int64_t in, int64_t out, const char* in_axis,
                  const char* out_axis) {
  return {params, in, out, {.out_axis = out_axis, .in_axis = in_axis, .bias = false}};
}

void offer(const BlockTap& tap, const char* name, Tensor value) {
  if (tap) {
    tap(name, value);
  }
}

/// Pairs (i, i + d / 2) of each head rotated, in f32.
Tensor rotated(Tensor x, const BlockInputs& given) {
  const std::vector<Tensor> halves = split(nn::widened(x), Axis(3), 2);
  const Tensor cos = nn::as(given.cos, halves[0].dtype());
  const Tensor sin = nn::as(given.sin, halves[0].dtype());
  return concatenate({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin},
                     Axis(3));
}

/// Heads of keys or values [b, t, k, d], each repeated for its `group` of queries.
Tensor repeated(Tensor x, int64_t group) {
  if (group == 1) {
    return x;
  }
  const Dims wide{x.dim(0), x.dim(1), x.dim(2), group, x.dim(3)};
  return reshape(broadcast_to(expand_dims(x, Axis(3)), wide),
                 {x.dim(0), x.dim(1), x.dim(2) * group, x.dim(3)});
}

}  // namespace

BlockInputs block_inputs(Graph& graph, int64_t t, const EncoderConfig& c, Precision precision) {
  const nn::Rope rope = nn::rope_of_axis(graph, t, c.head_dim, c.rope_theta);
  const auto table = [&](Tensor of_pairs) {  // the first sine of a pair is negated
    return reshape(slice(of_pairs, Axis(2), 1, 1), {t, 1, c.head_dim / 2});
  };
  const Shape square{DType::F32, {t, t}};
  const Tensor is_later = compare(iota(graph, {DType::S32, square.dims}, Axis(1)), Comparison::GT,
                                  iota(graph, {DType::S32, square.dims}, Axis(0)));
  const Tensor mask =
      select(is_later, constant(graph, kMasked, square), constant(graph, 0.0, square));
  return {.cos = table(rope.cos),
          .sin = table(rope.sin),
          .mask = reshape(mask, {1, 1, t, t}),
          .precision = precision};
}

// The quoted names are the keys of the released checkpoints.
SelfAttention::SelfAttention(const nn::Params& params, const EncoderConfig& c)
    : config_(c),
      query_(linear(params / "q_proj", c.hidden_size, c.num_attention_heads * c.head_dim, "embed",
                    "heads")),
      key_(linear(params / "k_proj", c.hidden_size, c.num_key_value_heads * c.head_dim, "embed",
                  "heads")),
      value_(linear(params / "v_proj", c.hidden_size, c.num_key_value_heads * c.head_dim, "embed",
                    "heads")),
      out_(linear(params / "o_proj", c.num_attention_heads * c.head_dim, c.hidden_size, "heads",
                  "embed")),
      norm_query_(params / "q_norm", c.head_dim, c.rms_norm_eps),
      norm_key_(params / "k_norm", c.head_dim, c.rms_norm_eps) {}

Tensor SelfAttention::operator()(Tensor x, const BlockInputs& given, const BlockTap& tap) const {
  const auto heads = [&](const nn::Linear& layer) {
    const Tensor y = layer(x, given.precision);
    return reshape(y, {y.dim(0), y.dim(1), y.dim(2) / config_.head_dim, config_.head_dim});
  };
  const Tensor query = norm_query_(heads(query_));
  const Tensor key = norm_key_(heads(key_));
  offer(tap, "q_norm", query);
  offer(tap, "k_norm", key);
  const int64_t group = config_.num_attention_heads / config_.num_key_value_heads;
  const Tensor y = nn::attention(
      nn::as(rotated(query, given), x.dtype()),
      repeated(nn::as(rotated(key, given), x.dtype()), group), repeated(heads(value_), group),
      {.kind = nn::AttentionKind::FLASH, .precision = given.precision, .bias = given.mask});
  return out_(reshape(y, {x.dim(0), x.dim(1), config_.num_attention_heads * config_.head_dim}),
              given.precision);
}

Block::Block(const nn::Params& params, const EncoderConfig& c)
    : attention_norm_(params / "input_layernorm", c.hidden_size, c.rms_norm_eps),
      attention_(params / "self_attn", c),
      feed_forward_norm_(params / "post_attention_layernorm", c.hidden_size, c.rms_norm_eps),
      gate_(
          linear(params / "mlp" / "gate_proj", c.hidden_size, c.intermediate_size, "embed", "mlp")),
      up_(linear(params / "mlp" / "up_proj", c.hidden_size, c.intermediate_size, "embed", "mlp")),
      down_(linear(params / "mlp" / "down_proj", c.intermediate_size, c.hidden_size, "mlp",
                   "embed")) {}

Tensor Block::operator()(Tensor x, const BlockInputs& given, const BlockTap& tap) const {
  const Tensor h = nn::as(attention_norm_(x), x.dtype());
  offer(tap, "input_layernorm", h);
  const Tensor attended = attention_(h, given, tap);
  offer(tap, "self_attn", attended);
  x = x + attended;
  const Tensor y = nn::as(feed_forward_norm_(x), x.dtype());
  offer(tap, "post_attention_layernorm", y);
  const Tensor gate = silu(nn::widened(gate_(y, given.precision)));
  const Tensor inner = nn::as(gate * nn::widened(up_(y, given.precision)), x.dtype());
  const Tensor made = down_(inner, given.precision);
  offer(tap, "mlp", made);
  return x + made;
}

}  // namespace kinema::qwen3
