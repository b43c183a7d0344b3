#include "kinema/models/wan/animate.h"

#include <cmath>

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"

namespace kinema::wan {
namespace {

constexpr std::string_view kAdapters = "face_adapter";

nn::Linear square_projection(const nn::Params& params, int64_t dim) {
  return {params, dim, dim, {.out_axis = "heads", .in_axis = "embed", .bias_axis = "heads"}};
}

BlockRow adapter_row(const TransformerConfig& c) {
  return {.prefix = kAdapters, .layers = Animate::adapters(c)};
}

}  // namespace

FaceEncoder::CausalConv::CausalConv(const nn::Params& params, int64_t in, int64_t out)
    : weight(params.weight("weight", {out, in, 3}, {"conv_out", "", ""}, nn::Init::xavier())),
      bias(params.weight("bias", {out}, {""}, nn::Init::zeros())) {}

Tensor FaceEncoder::CausalConv::operator()(Tensor x, int64_t stride, Precision precision) const {
  const Tensor first = slice(x, Axis(2), 0, 1);
  const Tensor y = convolution(concatenate({first, first, x}, Axis(2)), nn::as(weight, x.dtype()),
                               {.strides = {stride}, .pad = {{0, 0}}, .precision = precision});
  return y + reshape(nn::as(bias, y.dtype()), {1, y.dim(1), 1});
}

FaceEncoder::FaceEncoder(const nn::Params& params, const TransformerConfig& c)
    : heads_(c.animate->face_heads),
      conv1_(params / "conv1_local", c.animate->motion_encoder_dim,
             c.animate->face_hidden_dim * c.animate->face_heads),
      conv2_(params / "conv2", c.animate->face_hidden_dim, c.animate->face_hidden_dim),
      conv3_(params / "conv3", c.animate->face_hidden_dim, c.animate->face_hidden_dim),
      out_(params / "out_proj", c.animate->face_hidden_dim, c.dim(), {.out_axis = "embed"}),
      padding_(params.weight("padding_tokens", {1, 1, 1, c.dim()}, {"", "", "", ""},
                             nn::Init::zeros())) {}

Tensor FaceEncoder::operator()(Tensor motion, Precision precision) const {
  constexpr double kEps = 1e-6;  // independent of the config's eps, as in the reference
  const int64_t b = motion.dim(0);
  // The heads go on as samples; norms are over the channels.
  const auto activated = [&](Tensor x) {
    return transpose(silu(layer_norm(transpose(x, {0, 2, 1}), kEps)), {0, 2, 1});
  };
  Tensor x = conv1_(transpose(motion, {0, 2, 1}), 1, precision);
  x = activated(reshape(x, {b * heads_, x.dim(1) / heads_, x.dim(2)}));
  x = activated(conv2_(x, 2, precision));
  x = activated(conv3_(x, 2, precision));
  const Tensor y = out_(transpose(x, {0, 2, 1}), precision);
  const Tensor tokens = transpose(reshape(y, {b, heads_, y.dim(1), y.dim(2)}), {0, 2, 1, 3});
  const Dims one{b, tokens.dim(1), 1, tokens.dim(3)};
  return concatenate({tokens, broadcast_to(nn::as(padding_, tokens.dtype()), one)}, Axis(2));
}

FaceAdapter::FaceAdapter(const nn::Params& params, const TransformerConfig& c)
    : heads_(c.num_attention_heads),
      eps_(c.eps),
      to_q_(square_projection(params / "to_q", c.dim())),
      to_k_(square_projection(params / "to_k", c.dim())),
      to_v_(square_projection(params / "to_v", c.dim())),
      to_out_(params / "to_out", c.dim(), c.dim(),
              {.out_axis = "embed", .in_axis = "heads", .bias_axis = "embed"}),
      norm_q_(params / "norm_q", c.attention_head_dim, c.eps),
      norm_k_(params / "norm_k", c.attention_head_dim, c.eps) {}

Tensor FaceAdapter::operator()(Tensor x, Tensor face, Precision precision) const {
  const int64_t b = x.dim(0);
  const int64_t frames = face.dim(1);
  const auto heads = [&](Tensor y) {
    return reshape(y, {b, frames, -1, heads_, y.dim(-1) / heads_});
  };
  const Tensor seen = layer_norm(face, eps_);
  const Tensor q = norm_q_(heads(to_q_(layer_norm(x, eps_), precision)),
                           1.0 / std::sqrt(static_cast<double>(x.dim(2) / heads_)));
  const Tensor k = norm_k_(heads(to_k_(seen, precision)));
  const Tensor v = heads(to_v_(seen, precision));
  // A token has few keys: plain products, [b, frame, head, token, key].
  const DType wide = nn::widened(x).dtype();
  const Tensor scores = dot_general(
      nn::as(q, x.dtype()), nn::as(k, x.dtype()),
      {.lhs_contract = {4}, .rhs_contract = {4}, .lhs_batch = {0, 1, 3}, .rhs_batch = {0, 1, 3}},
      precision, wide);
  const Tensor y = dot_general(
      softmax(scores, x.dtype()), v,
      {.lhs_contract = {4}, .rhs_contract = {2}, .lhs_batch = {0, 1, 2}, .rhs_batch = {0, 1, 3}},
      precision);
  return to_out_(reshape(transpose(y, {0, 1, 3, 2, 4}), x.shape().dims), precision);
}

Animate::Animate(const nn::Params& root, const TransformerConfig& c)
    : pose_(root / "pose_patch_embedding", c.animate->latent_channels, c.dim(), c.patch_size),
      motion_(root / "motion_encoder", *c.animate),
      face_(root / "face_encoder", c) {}

int64_t Animate::adapters(const TransformerConfig& c) {
  return c.num_layers / c.animate->inject_face_latents_blocks;
}

void Animate::open_adapters(const nn::Params& root, const TransformerConfig& c, bool stacked) {
  const BlockRow row = adapter_row(c);
  for (int64_t i = 0; i < (stacked ? 1 : row.layers); ++i) {
    const FaceAdapter adapter(root / (stacked ? row.stacked_key() : row.key(i)), c);
  }
}

Tensor Animate::pose_tokens(Tensor poses, DType dtype, Precision precision,
                            const NetworkTap& tap) const {
  const Tensor tokens = pose_(nn::as(poses, dtype), precision);
  if (tap) {
    tap("pose_patch_embed", tokens);
  }
  return pad(tokens, Axis(1), tokens.dim(1) / poses.dim(2), 0);
}

Tensor Animate::face_tokens(Tensor pixels, DType dtype, Precision precision,
                            const NetworkTap& tap) const {
  const Tensor motion = motion_(pixels, precision, tap);
  const Tensor tokens = face_(motion, precision);
  if (tap) {
    tap("motion_vec", motion);
    tap("face_encoder", tokens);
  }
  return nn::as(pad(tokens, Axis(1), 1, 0), dtype);
}

Residuals Animate::residuals(Tensor face, const BlockParameters& parameters,
                             const NetworkTap& tap) {
  const TransformerConfig& c = parameters.config;
  const BlockRow row = adapter_row(c);
  const Precision precision = parameters.options.precision;
  Residuals out;
  for (int64_t i = 0; i < row.layers; ++i) {
    out.layers.push_back(i * c.animate->inject_face_latents_blocks);
  }
  const auto added = [=, remat = parameters.options.remat](const FaceAdapter& adapter, Tensor x) {
    return checkpoint({x, face}, remat, [&](std::span<const Tensor> in) -> std::vector<Tensor> {
      return {adapter(in[0], in[1], precision)};
    })[0];
  };
  if (parameters.options.scan_layers) {
    const StackedRow stack(row, parameters);
    out.values = stack.values();
    out.of = [=](Tensor x, int64_t, std::span<const Tensor> values) {
      const Scope scope(x.graph(), std::string(kAdapters));
      return added(stack.layer<FaceAdapter>(values), x);
    };
    return out;
  }
  out.of = [=, &parameters](Tensor x, int64_t i, std::span<const Tensor>) {
    const Scope scope(x.graph(), row.key(i));
    const Tensor y = added(FaceAdapter(nn::Params(parameters.binder, row.key(i)), c), x);
    if (tap) {
      tap(std::string(kAdapters) + std::to_string(i), y);
    }
    return y;
  };
  return out;
}

}  // namespace kinema::wan
