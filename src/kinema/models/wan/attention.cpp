#include "kinema/models/wan/attention.h"

#include <cmath>

#include "kinema/nn/attention_axes.h"

namespace kinema::wan {
namespace {

nn::LinearOptions into_heads() {
  return {.out_axis = "heads", .in_axis = "embed", .bias_axis = "heads"};
}

}  // namespace

HeadProjections::HeadProjections(const nn::Params& params, const TransformerConfig& c)
    : heads_(c.num_attention_heads),
      scale_(1.0 / std::sqrt(static_cast<double>(c.attention_head_dim))),
      quantized_((params / "attention_op").quantized()),
      to_q_(params / "to_q", c.dim(), c.dim(), into_heads()),
      to_k_(params / "to_k", c.dim(), c.dim(), into_heads()),
      to_v_(params / "to_v", c.dim(), c.dim(), into_heads()),
      to_out_(params / "to_out" / "0", c.dim(), c.dim(),
              {.out_axis = "embed", .in_axis = "heads", .bias_axis = "embed"}),
      norm_q_(params / "norm_q", c.dim(), c.eps),
      norm_k_(params / "norm_k", c.dim(), c.eps) {}

Tensor HeadProjections::heads(Tensor x) const {
  return reshape(x, {x.dim(0), x.dim(1), heads_, x.dim(2) / heads_});
}

Tensor HeadProjections::query(Tensor x, Precision precision, const mesh::Placement& place,
                              const BlockTap& tap) const {
  const Tensor q = place.rounded(to_q_(x, precision));
  if (tap) {
    tap("attn1.norm_q", norm_q_(q));
  }
  return heads(norm_q_(q, quantized_ ? 1.0 : scale_));
}

nn::AttentionOptions HeadProjections::with_scale(nn::AttentionOptions options) const {
  options.scale = quantized_ ? scale_ : 1.0;
  options.quantized = quantized_;
  return options;
}

Tensor HeadProjections::key(Tensor x, Precision precision, const mesh::Placement& place) const {
  return heads(norm_k_(place.rounded(to_k_(x, precision))));
}

Tensor HeadProjections::rotated(Tensor x, const nn::RmsNorm& norm, double scale,
                                const nn::Rope& rope) const {
  const DType dtype = nn::widened(x).dtype();
  return nn::norm_and_rotate(x, norm.weight(dtype, scale), norm.epsilon(), heads_, rope);
}

Tensor HeadProjections::rotated_query(Tensor x, const nn::Rope& rope, Precision precision) const {
  return rotated(to_q_(x, precision), norm_q_, quantized_ ? 1.0 : scale_, rope);
}

Tensor HeadProjections::rotated_key(Tensor x, const nn::Rope& rope, Precision precision) const {
  return rotated(to_k_(x, precision), norm_k_, 1.0, rope);
}

Tensor HeadProjections::value(Tensor x, Precision precision) const {
  return heads(to_v_(x, precision));
}

Tensor HeadProjections::output(Tensor y, Precision precision) const {
  y = named(reshape(y, {y.dim(0), y.dim(1), y.dim(2) * y.dim(3)}), "attn_output");
  return to_out_(y, precision);
}

Tensor SelfAttention::operator()(Tensor x, const nn::Rope& rope,
                                 const nn::AttentionOptions& options, const mesh::Placement& place,
                                 const BlockTap& tap) const {
  const Precision precision = options.precision;
  // The rotation follows the norm in f32, and the result is rounded once. Queries and keys have two
  // remat names, because other trainers' configurations use either.
  const bool fused = options.fused_rotation && !place.active() && !tap;
  const Tensor q =
      fused ? project_.rotated_query(x, rope, precision)
            : nn::as(nn::rotate(project_.query(x, precision, place, tap), rope), x.dtype());
  const Tensor k = fused ? project_.rotated_key(x, rope, precision)
                         : nn::as(nn::rotate(project_.key(x, precision, place), rope), x.dtype());
  nn::AttentionOptions scaled = project_.with_scale(options);
  scaled.axes = nn::self_attention_axes(place);
  const Tensor y =
      nn::attention(named(named(q, "query_proj"), "xq_out"), named(named(k, "key_proj"), "xk_out"),
                    named(project_.value(x, precision), "value_proj"), scaled);
  return project_.output(named(y, "self_attn"), precision);
}

CrossAttention::CrossAttention(const nn::Params& params, const TransformerConfig& c)
    : project_(params, c) {
  if (c.added_kv_proj_dim > 0) {
    image_.push_back({.add_k = {params / "add_k_proj", c.added_kv_proj_dim, c.dim(), {}},
                      .add_v = {params / "add_v_proj", c.added_kv_proj_dim, c.dim(), {}},
                      .norm = {params / "norm_added_k", c.dim(), c.eps}});
  }
}

CrossKeys CrossAttention::keys(Tensor text, Tensor image, Precision precision) const {
  CrossKeys out;
  // With image tokens, MaxDiffusion names both results.
  const bool has_image = !image_.empty();
  out.key = named(nn::as(project_.key(text, precision, {}), text.dtype()),
                  has_image ? "key_proj_text" : "key_proj");
  out.value = named(project_.value(text, precision), has_image ? "value_proj_text" : "value_proj");
  for (const ImageKeys& of : image_) {
    const Tensor key = project_.heads(of.norm(of.add_k(image, precision)));
    out.image_key = named(nn::as(key, image.dtype()), "key_proj_img");
    out.image_value = named(project_.heads(of.add_v(image, precision)), "value_proj_img");
  }
  return out;
}

Tensor CrossAttention::operator()(Tensor x, const CrossKeys& keys,
                                  const nn::AttentionOptions& options,
                                  const mesh::Placement& place) const {
  const Precision precision = options.precision;
  Tensor q = named(nn::as(project_.query(x, precision, place, {}), x.dtype()), "query_proj");
  if (keys.image_key) {  // the same queries attend to text and image
    q = named(q, "query_proj_img");
  }
  nn::AttentionOptions scaled = project_.with_scale(options);
  scaled.axes = nn::cross_attention_axes(place);
  scaled.replicated_keys = true;
  Tensor y = nn::attention(q, keys.key, keys.value, scaled);
  if (keys.image_key) {
    y = y + nn::attention(q, keys.image_key, keys.image_value, scaled);
  }
  return project_.output(named(y, "cross_attn"), precision);
}

}  // namespace kinema::wan
