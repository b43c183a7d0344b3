#include "kinema/models/flux/attention.h"

#include <cmath>

namespace kinema::flux {
namespace {

constexpr double kNormEpsilon = 1e-6;

nn::LinearOptions into_heads() {
  return {.out_axis = "heads", .in_axis = "embed", .bias_axis = "heads"};
}

}  // namespace

StreamProjections::StreamProjections(const nn::Params& params, const Names& names,
                                     const TransformerConfig& c)
    : heads_(c.num_attention_heads),
      products_(names.products),
      query_(params / names.query, c.dim(), c.dim(), into_heads()),
      key_(params / names.key, c.dim(), c.dim(), into_heads()),
      value_(params / names.value, c.dim(), c.dim(), into_heads()),
      norm_query_(params / names.norm_query, c.attention_head_dim, kNormEpsilon),
      norm_key_(params / names.norm_key, c.attention_head_dim, kNormEpsilon) {}

Heads StreamProjections::operator()(Tensor x, Precision precision,
                                    const mesh::Placement& place) const {
  const auto split = [&](Tensor y) {
    return reshape(y, {y.dim(0), y.dim(1), heads_, y.dim(2) / heads_});
  };
  const auto product = [&](Tensor y) { return named(y, products_); };
  return {.query = norm_query_(split(product(place.rounded(query_(x, precision))))),
          .key = norm_key_(split(product(place.rounded(key_(x, precision))))),
          .value = split(product(value_(x, precision)))};
}

Tensor Attend::operator()(const Heads& heads, const nn::Rope& rope,
                          const nn::AttentionOptions& options) const {
  const DType dtype = heads.value.dtype();
  // The scale of the scores is applied with the rotation, in f32. If attention is quantized, scores
  // are scaled afterwards, because the codes depend on the magnitude.
  const double scale = 1.0 / std::sqrt(static_cast<double>(heads.query.dim(3)));
  const Tensor query = quantized_ ? heads.query : heads.query * scale;
  const Tensor q = nn::as(nn::rotate(query, rope), dtype);
  const Tensor k = nn::as(nn::rotate(heads.key, rope), dtype);
  nn::AttentionOptions how = options;
  how.scale = quantized_ ? scale : 1.0;
  how.quantized = quantized_;
  const Tensor y =
      nn::attention(named(named(q, "query_proj"), "xq_out"), named(named(k, "key_proj"), "xk_out"),
                    named(heads.value, "value_proj"), how);
  return named(reshape(named(y, "self_attn"), {y.dim(0), y.dim(1), y.dim(2) * y.dim(3)}),
               "attn_output");
}

Heads joined(const Heads& a, const Heads& b) {
  return {.query = concatenate({a.query, b.query}, Axis(1)),
          .key = concatenate({a.key, b.key}, Axis(1)),
          .value = concatenate({a.value, b.value}, Axis(1))};
}

}  // namespace kinema::flux
