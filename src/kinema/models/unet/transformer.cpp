#include "kinema/models/unet/transformer.h"

#include <array>
#include <cmath>
#include <string_view>

#include "kinema/graph/scan.h"

namespace kinema::unet {
namespace {

constexpr double kLayerNormEpsilon = 1e-5;
/// Differs from the UNet's norm_eps.
constexpr double kGroupNormEpsilon = 1e-6;
constexpr int64_t kFeedForward = 4;  // times the width

constexpr std::array<std::string_view, 3> kTokenAxes = {"activation_batch", "activation_length",
                                                        "activation_heads"};

nn::LinearOptions into_heads() { return {.out_axis = "heads", .in_axis = "embed", .bias = false}; }

}  // namespace

Attention::Attention(const nn::Params& params, int64_t dim, int64_t heads, int64_t context)
    : heads_(heads),
      quantized_((params / "attention_op").quantized()),
      to_q_(params / "to_q", dim, dim, into_heads()),
      to_k_(params / "to_k", context, dim, into_heads()),
      to_v_(params / "to_v", context, dim, into_heads()),
      to_out_(params / "to_out" / "0", dim, dim,
              {.out_axis = "embed", .in_axis = "heads", .bias_axis = "embed"}) {}

TextKeys Attention::keys(Tensor context, Precision precision) const {
  const auto heads = [&](Tensor y) {
    return reshape(y, {y.dim(0), y.dim(1), heads_, y.dim(2) / heads_});
  };
  return {.key = named(heads(to_k_(context, precision)), "key_proj"),
          .value = named(heads(to_v_(context, precision)), "value_proj")};
}

Tensor Attention::operator()(Tensor x, const TextKeys& keys,
                             const nn::AttentionOptions& options) const {
  const Tensor q = named(to_q_(x, options.precision), "query_proj");
  nn::AttentionOptions how = options;
  how.quantized = quantized_;
  const Tensor y = nn::attention(reshape(q, {x.dim(0), x.dim(1), heads_, x.dim(2) / heads_}),
                                 keys.key, keys.value, how);
  return to_out_(named(reshape(y, x.shape().dims), "attn_output"), options.precision);
}

TransformerBlock::TransformerBlock(const nn::Params& params, int64_t dim, int64_t heads,
                                   const UNetConfig& c)
    : norm1_(params / "norm1", dim, kLayerNormEpsilon),
      attn1_(params / "attn1", dim, heads, dim),
      norm2_(params / "norm2", dim, kLayerNormEpsilon),
      attn2_(params / "attn2", dim, heads, c.cross_attention_dim),
      norm3_(params / "norm3", dim, kLayerNormEpsilon),
      up_(params / "ff" / "net" / "0" / "proj", dim, 2 * kFeedForward * dim,
          {.out_axis = "mlp", .in_axis = "embed", .bias_axis = "mlp"}),
      down_(params / "ff" / "net" / "2", kFeedForward * dim, dim,
            {.out_axis = "embed", .in_axis = "mlp"}) {}

Tensor TransformerBlock::feed_forward(Tensor x, const TransformerOptions& given,
                                      const PartTap& tap) const {
  const Precision precision = given.self_attention.precision;
  const auto down = [&](std::span<const Tensor> in) -> std::vector<Tensor> {
    const Tensor y = named(geglu(in[0]), "ffn_activation");
    if (tap) {
      tap("geglu", y);
    }
    return {down_(given.place(y, {"activation_batch", "activation_length", "mlp"}), precision)};
  };
  const Tensor y = up_(x, precision);
  // Without a remat policy: the activation is not kept, but computed again from y.
  const bool again = !tap && given.layers.remat.kind == RematPolicy::Kind::NONE;
  return (again ? checkpoint({y}, {.kind = RematPolicy::Kind::FULL}, down)
                : down(std::array{y}))[0];
}

Tensor TransformerBlock::operator()(Tensor x, const TextKeys& keys, const TransformerOptions& given,
                                    const PartTap& tap) const {
  const auto offer = [&](const char* name, Tensor value) {
    if (tap) {
      tap(name, value);
    }
    return value;
  };
  x = named(given.place(x, kTokenAxes), "hidden_states");
  {
    const Scope scope(x.graph(), "attn1");
    const Tensor y = norm1_(x);
    const TextKeys own = attn1_.keys(y, given.self_attention.precision);
    x = x + offer("attn1", attn1_(y, own, given.self_attention));
  }
  {
    const Scope scope(x.graph(), "attn2");
    x = x + offer("attn2", attn2_(norm2_(x), keys, given.cross_attention));
  }
  const Scope scope(x.graph(), "ff");
  return given.place(x + feed_forward(norm3_(x), given, tap), kTokenAxes);
}

SpatialTransformer::Projection SpatialTransformer::projection(const nn::Params& params,
                                                              int64_t channels, const UNetConfig& c,
                                                              const nn::LinearOptions& options) {
  if (c.use_linear_projection) {
    return nn::Linear(params, channels, channels, options);
  }
  return nn::Conv2d(params, channels, channels, 1, options.init);
}

SpatialTransformer::SpatialTransformer(const nn::Params& params, const TransformerSpec& place,
                                       const UNetConfig& c)
    : place_(place),
      norm_(params / "norm", place.channels, c.norm_num_groups, kGroupNormEpsilon),
      proj_in_(projection(params / "proj_in", place.channels, c,
                          {.out_axis = "mlp", .in_axis = "embed", .bias_axis = "mlp"})),
      // Zero: from scratch, transformers start as the identity.
      proj_out_(projection(params / "proj_out", place.channels, c,
                           {.out_axis = "embed", .in_axis = "mlp", .init = nn::Init::zeros()})) {}

Tensor SpatialTransformer::operator()(Tensor x, nn::Bound& bound, const TextKeys& keys,
                                      const UNetConfig& config, const TransformerOptions& given,
                                      const PartTap& tap) const {
  const auto offer = [&](const char* name, Tensor value) {
    if (tap) {
      tap(name, value);
    }
    return value;
  };
  const Precision precision = given.self_attention.precision;
  const int64_t b = x.dim(0);
  const int64_t h = x.dim(2);
  const int64_t w = x.dim(3);
  const Tensor normed = offer("norm", norm_(x));
  const auto to_tokens = [&](Tensor map) {
    return reshape(transpose(map, {0, 2, 3, 1}), {b, h * w, place_.channels});
  };
  const auto to_map = [&](Tensor tokens) {
    return transpose(reshape(tokens, {b, h, w, place_.channels}), {0, 3, 1, 2});
  };
  const auto* const linear_in = std::get_if<nn::Linear>(&proj_in_);
  const Tensor entered =
      offer("proj_in", linear_in != nullptr ? (*linear_in)(to_tokens(normed), precision)
                                            : std::get<nn::Conv2d>(proj_in_)(normed, precision));
  const Tensor tokens = linear_in != nullptr ? entered : to_tokens(entered);
  const std::vector<Tensor> of_layers{keys.key, keys.value};
  const Tensor y = bound.run(
      place_.blocks(), {tokens}, of_layers, given.layers,
      [&](const nn::Bound::Layer& layer, std::span<const Tensor> carry) -> std::vector<Tensor> {
        // Taps receive values of the first block only.
        const PartTap& inside = layer.number == 0 ? tap : PartTap();
        const TransformerBlock block(layer.params, place_.channels, place_.heads, config);
        const Tensor out = block(carry[0], {layer.given[0], layer.given[1]}, given, inside);
        if (tap && layer.number >= 0) {
          tap("block" + std::to_string(layer.number), out);
        }
        return {out};
      })[0];
  const auto* const linear_out = std::get_if<nn::Linear>(&proj_out_);
  return x + (linear_out != nullptr ? to_map((*linear_out)(y, precision))
                                    : std::get<nn::Conv2d>(proj_out_)(to_map(y), precision));
}

}  // namespace kinema::unet
