#include "kinema/models/t5/block.h"

#include "kinema/graph/scan.h"
#include "kinema/models/t5/relative_bias.h"
#include "kinema/nn/attention.h"
#include "kinema/nn/linear.h"

namespace kinema::t5 {

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

Tensor relative_bias_table(const nn::Params& attention, const EncoderConfig& c) {
  return (attention / "relative_attention_bias")
      .weight("weight", {c.relative_attention_num_buckets, c.num_heads}, {"", ""},
              nn::Init::normal(1.0));
}

SelfAttention::SelfAttention(const nn::Params& params, const EncoderConfig& c)
    : config_(c),
      q_(params / "q", c.d_model, c.inner_dim(), "embed", "heads"),
      k_(params / "k", c.d_model, c.inner_dim(), "embed", "heads"),
      v_(params / "v", c.d_model, c.inner_dim(), "embed", "heads"),
      o_(params / "o", c.inner_dim(), c.d_model, "heads", "embed"),
      bias_table_(c.shared_relative_bias ? Tensor() : relative_bias_table(params, c)) {}

Tensor SelfAttention::heads(Tensor x) const {
  return reshape(x, {x.dim(0), x.dim(1), config_.num_heads, config_.d_kv});
}

/// q, k, v [b, t, n, d_kv] and these heads' bias table [buckets, n] -> [b, t, n, d_kv].
Tensor SelfAttention::all_heads(Tensor q, Tensor k, Tensor v, Tensor table,
                                const BlockInputs& given) const {
  const Tensor bias = relative_bias(table, config_, q.dim(1));
  if (given.bias_tap) {
    given.bias_tap(bias);
  }
  return nn::attention(q, k, v,
                       {.kind = nn::AttentionKind::FLASH,
                        .precision = given.precision,
                        .scale = 1.0,
                        .bias = given.mask ? bias + given.mask : bias});
}

/// The same, for one group of neighbouring heads after the other.
Tensor SelfAttention::in_groups(Tensor q, Tensor k, Tensor v, Tensor table, int64_t groups,
                                const BlockInputs& given) const {
  const int64_t n = config_.num_heads / groups;
  const Tensor first_heads = iota(q.graph(), {DType::S32, {groups}}, Axis(0)) *
                             constant(q.graph(), static_cast<double>(n), {DType::S32, {}});
  const ScanResult result = scan(
      {}, {first_heads}, {.length = groups},
      [&](std::span<const Tensor>, std::span<const Tensor> x) -> ScanResult {
        const auto group = [&](Tensor all, Axis axis) { return dynamic_slice(all, axis, x[0], n); };
        return {.ys = {all_heads(group(q, Axis(2)), group(k, Axis(2)), group(v, Axis(2)),
                                 group(table, Axis(1)), given)}};
      });
  return reshape(transpose(result.ys[0], {1, 2, 0, 3, 4}), q.shape().dims);
}

/// The smallest number of equal groups of heads whose scores fit.
int64_t SelfAttention::groups(int64_t b, int64_t t, int64_t scores_bytes) const {
  int64_t groups = 1;
  while (groups < config_.num_heads &&
         (config_.num_heads % groups != 0 ||
          b * (config_.num_heads / groups) * t * t * byte_size(DType::F32) > scores_bytes)) {
    ++groups;
  }
  return groups;
}

Tensor SelfAttention::operator()(Tensor x, const BlockInputs& given) const {
  const Tensor q = heads(q_(x, given.precision));
  const Tensor k = heads(k_(x, given.precision));
  const Tensor v = heads(v_(x, given.precision));
  const Tensor table = config_.shared_relative_bias ? given.bias_table : bias_table_;
  const int64_t count = given.bias_tap ? 1 : groups(x.dim(0), x.dim(1), given.scores_bytes);
  const Tensor y =
      count == 1 ? all_heads(q, k, v, table, given) : in_groups(q, k, v, table, count, given);
  return o_(reshape(y, {x.dim(0), x.dim(1), config_.inner_dim()}), given.precision);
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

}  // namespace kinema::t5
