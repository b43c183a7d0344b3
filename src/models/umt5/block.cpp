#include "models/umt5/block.h"

#include "models/umt5/relative_bias.h"
#include "nn/attention.h"
#include "nn/linear.h"

namespace kinema::umt5 {

// The quoted names are the keys of the released checkpoints.

Projection::Projection(const nn::Params& params, int64_t in, int64_t out, const char* in_axis,
                       const char* out_axis)
    : weight_(params.weight("weight", {out, in}, {out_axis, in_axis}, nn::Init::xavier())) {}

Tensor Projection::operator()(Tensor x, Precision precision) const {
  const DType sums = x.dtype() == DType::F64 ? DType::F64 : DType::F32;
  const Tensor y =
      dot_general(x, nn::as(weight_, x.dtype()),
                  {.lhs_contract = {x.rank() - 1}, .rhs_contract = {1}}, precision, sums);
  return nn::as(y, x.dtype());
}

SelfAttention::SelfAttention(const nn::Params& params, const EncoderConfig& c)
    : heads_(c.num_heads),
      q_(params / "q", c.d_model, c.inner_dim(), "embed", "heads"),
      k_(params / "k", c.d_model, c.inner_dim(), "embed", "heads"),
      v_(params / "v", c.d_model, c.inner_dim(), "embed", "heads"),
      o_(params / "o", c.inner_dim(), c.d_model, "heads", "embed"),
      bias_table_((params / "relative_attention_bias")
                      .weight("weight", {c.relative_attention_num_buckets, c.num_heads}, {"", ""},
                              nn::Init::normal(1.0))) {}

Tensor SelfAttention::heads(Tensor x) const {
  return reshape(x, {x.dim(0), x.dim(1), heads_, x.dim(2) / heads_});
}

Tensor SelfAttention::operator()(Tensor x, const BlockInputs& given) const {
  const Tensor bias = relative_bias(bias_table_, given.choice);
  if (given.bias_tap) {
    given.bias_tap(bias);
  }
  const Tensor y = nn::attention(
      heads(q_(x, given.precision)), heads(k_(x, given.precision)), heads(v_(x, given.precision)),
      {.precision = given.precision, .scale = 1.0, .bias = bias + given.mask});
  return o_(reshape(y, {y.dim(0), y.dim(1), y.dim(2) * y.dim(3)}), given.precision);
}

GatedFeedForward::GatedFeedForward(const nn::Params& params, const EncoderConfig& c)
    : gate_(params / "wi_0", c.d_model, c.d_ff, "embed", "mlp"),
      value_(params / "wi_1", c.d_model, c.d_ff, "embed", "mlp"),
      out_(params / "wo", c.d_ff, c.d_model, "mlp", "embed") {}

Tensor GatedFeedForward::operator()(Tensor x, Precision precision) const {
  const Tensor gate = gelu_tanh(nn::widened(gate_(x, precision)));
  return out_(nn::as(gate * nn::widened(value_(x, precision)), x.dtype()), precision);
}

Block::Block(const nn::Params& params, const EncoderConfig& c)
    : attention_norm_(params / "layer" / "0" / "layer_norm", c.d_model, c.layer_norm_epsilon),
      attention_(params / "layer" / "0" / "SelfAttention", c),
      feed_forward_norm_(params / "layer" / "1" / "layer_norm", c.d_model, c.layer_norm_epsilon),
      feed_forward_(params / "layer" / "1" / "DenseReluDense", c) {}

Tensor Block::operator()(Tensor x, const BlockInputs& given) const {
  x = x + attention_(nn::as(attention_norm_(x), x.dtype()), given);
  return x + feed_forward_(nn::as(feed_forward_norm_(x), x.dtype()), given.precision);
}

}  // namespace kinema::umt5
