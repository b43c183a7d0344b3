#include "kinema/models/clip/siglip.h"

#include "kinema/core/error.h"
#include "kinema/models/clip/layer.h"
#include "kinema/nn/layers.h"
#include "kinema/nn/linear.h"

namespace kinema::clip {
namespace {

/// Pixels to tokens: a linear map of each patch, and a learned position embedding for each.
class PatchTokens {
 public:
  PatchTokens(const nn::Params& params, const VisionConfig& c)
      : patch_(c.patch_size),
        grid_(c.image_size / c.patch_size),
        map_(params / "patch_embedding", c),
        position_((params / "position_embedding")
                      .weight("weight", {c.patches(), c.hidden_size}, {"", ""},
                              nn::Init::normal(0.02))) {}

  /// [b, 3, h, w] -> [b, t, d].
  Tensor operator()(Tensor pixels, Precision precision) const {
    const int64_t b = pixels.dim(0);
    const int64_t whole = grid_ * patch_;  // pixels outside complete patches are not read
    Tensor x = slice(slice(pixels, Axis(2), 0, whole), Axis(3), 0, whole);
    x = reshape(x, {b, pixels.dim(1), grid_, patch_, grid_, patch_});
    x = reshape(transpose(x, {0, 2, 4, 1, 3, 5}), {b, grid_ * grid_, -1});
    const Tensor weight = reshape(map_.weight, {map_.weight.dim(0), -1});
    return nn::linear(x, weight, map_.bias, precision) + nn::as(position_, x.dtype());
  }

 private:
  struct Map {
    Map(const nn::Params& params, const VisionConfig& c)
        : weight(params.weight("weight",
                               {c.hidden_size, c.num_channels, c.patch_size, c.patch_size},
                               {"", "", "", ""}, nn::Init::xavier())),
          bias(params.weight("bias", {c.hidden_size}, {""}, nn::Init::zeros())) {}
    Tensor weight;
    Tensor bias;
  };

  int64_t patch_;
  int64_t grid_;
  Map map_;
  Tensor position_;
};

nn::Layers siglip_layers(const std::string& prefix, const VisionConfig& config) {
  return {(prefix.empty() ? "" : prefix + ".") + "encoder.layers", config.num_hidden_layers};
}

/// Two linear layers with SiLU between them, the first to three times the result's width.
struct Redux {
  Redux(const nn::Params& root, const ReduxConfig& c)
      : up(root / "redux_up", c.redux_dim, 3 * c.txt_in_features, {}),
        down(root / "redux_down", 3 * c.txt_in_features, c.txt_in_features, {}) {}

  nn::Linear up;
  nn::Linear down;
};

}  // namespace

std::vector<nn::ParamSpec> siglip_parameters(const VisionConfig& config, const std::string& prefix,
                                             DType dtype) {
  validate(config);
  nn::SpecCollector specs([&](const std::string& key) { return parameter_dtype(key, dtype); });
  const nn::Params top = root(specs, prefix);
  const PatchTokens tokens(top / "embeddings", config);
  const nn::LayerNorm after(top / "post_layernorm", config.hidden_size, config.layer_norm_eps);
  nn::open_layers(specs, siglip_layers(prefix, config), true,
                  [&](const nn::Params& params) { const Layer layer(params, config.layer()); });
  return specs.take();
}

Tensor siglip_states(std::span<const Tensor> params, const VisionConfig& config,
                     const std::string& prefix, Tensor pixels, DType dtype, Precision precision) {
  check(pixels.rank() == 4 && pixels.dim(1) == config.num_channels &&
            pixels.dim(2) == config.image_size && pixels.dim(3) == config.image_size,
        "[siglip] pixels are {} but must be [b, {}, {}, {}]", to_string(pixels.shape()),
        config.num_channels, config.image_size, config.image_size);
  nn::Bound bound(siglip_parameters(config, prefix, dtype), params);
  const nn::Params top = prefix.empty() ? bound.root() : bound.root() / prefix;
  const PatchTokens tokens(top / "embeddings", config);
  const nn::LayerNorm after(top / "post_layernorm", config.hidden_size, config.layer_norm_eps);
  const Tensor x = tokens(nn::as(pixels, dtype), precision);
  return after(bound.run(siglip_layers(prefix, config), {x}, {}, {},
                         [&](const nn::Bound::Layer& layer, std::span<const Tensor> carry) {
                           const Layer run(layer.params, config.layer());
                           return std::vector<Tensor>{run(carry[0], {}, precision)};
                         })[0]);
}

std::vector<nn::ParamSpec> redux_parameters(const ReduxConfig& config) {
  check(config.redux_dim > 0 && config.redux_dim <= 1 << 17 && config.txt_in_features > 0 &&
            config.txt_in_features <= 1 << 17,
        "[redux] `redux_dim` is {} and `txt_in_features` {}, expected widths", config.redux_dim,
        config.txt_in_features);
  nn::SpecCollector specs([](const std::string&) { return DType::F32; });
  const Redux redux(nn::Params(specs, ""), config);
  return specs.take();
}

Tensor redux_tokens(std::span<const Tensor> params, const ReduxConfig& config, Tensor states,
                    Precision precision) {
  check(states.rank() == 3 && states.dim(2) == config.redux_dim,
        "[redux] the image's states are {} but must be [b, n, {}]", to_string(states.shape()),
        config.redux_dim);
  nn::Bound bound(redux_parameters(config), params);
  const Redux redux(bound.root(), config);
  return redux.down(silu(redux.up(states, precision)), precision);
}

}  // namespace kinema::clip
