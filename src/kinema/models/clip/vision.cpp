#include "kinema/models/clip/vision.h"

#include "kinema/core/error.h"
#include "kinema/models/clip/layer.h"
#include "kinema/nn/layers.h"

namespace kinema::clip {
namespace {

/// Pixels to tokens: a linear map of each patch, a class token before them, and a learned position
/// embedding for each.
class Embeddings {
 public:
  Embeddings(const nn::Params& params, const VisionConfig& c)
      : patch_(c.patch_size),
        grid_(c.image_size / c.patch_size),
        class_(params.weight("class_embedding", {c.hidden_size}, {""}, nn::Init::normal(0.02))),
        weight_((params / "patch_embedding")
                    .weight("weight", {c.hidden_size, c.num_channels, patch_, patch_},
                            {"", "", "", ""}, nn::Init::xavier())),
        position_(
            (params / "position_embedding")
                .weight("weight", {c.tokens(), c.hidden_size}, {"", ""}, nn::Init::normal(0.02))) {}

  /// [b, 3, h, w] -> [b, t, d].
  Tensor operator()(Tensor pixels, Precision precision) const {
    const int64_t b = pixels.dim(0);
    const int64_t d = class_.dim(0);
    // A kernel as large as its stride is one product per patch; pixels outside complete patches are
    // ignored.
    const int64_t whole = grid_ * patch_;
    Tensor x = slice(slice(pixels, Axis(2), 0, whole), Axis(3), 0, whole);
    x = reshape(x, {b, pixels.dim(1), grid_, patch_, grid_, patch_});
    x = reshape(transpose(x, {0, 2, 4, 1, 3, 5}), {b, grid_ * grid_, -1});
    x = dot_general(x, nn::as(reshape(weight_, {d, -1}), x.dtype()),
                    {.lhs_contract = {2}, .rhs_contract = {1}}, precision);
    const Tensor head = broadcast_to(nn::as(class_, x.dtype()), {b, 1, d});
    return concatenate({head, x}, Axis(1)) + nn::as(position_, x.dtype());
  }

 private:
  int64_t patch_;
  int64_t grid_;
  Tensor class_;
  Tensor weight_;
  Tensor position_;
};

nn::Layers layers_of(const std::string& prefix, int64_t count) {
  return {(prefix.empty() ? "" : prefix + ".") + "encoder.layers", count};
}

/// The specs of `layers` layers; `whole` adds the parameters after the layers.
std::vector<nn::ParamSpec> collect(const VisionConfig& config, const std::string& prefix,
                                   DType dtype, int64_t layers, bool whole) {
  validate(config);
  nn::SpecCollector specs([&](const std::string& key) { return parameter_dtype(key, dtype); });
  const nn::Params top = root(specs, prefix);
  const Embeddings embeddings(top / "embeddings", config);
  // The key is misspelt in every checkpoint.
  const nn::LayerNorm before(top / "pre_layrnorm", config.hidden_size, config.layer_norm_eps);
  if (whole) {
    const nn::LayerNorm after(top / "post_layernorm", config.hidden_size, config.layer_norm_eps);
  }
  if (layers > 0) {
    nn::open_layers(specs, layers_of(prefix, layers), true,
                    [&](const nn::Params& params) { const Layer layer(params, config.layer()); });
  }
  return specs.take();
}

}  // namespace

std::vector<nn::ParamSpec> parameters(const VisionConfig& config, const std::string& prefix,
                                      DType dtype) {
  return collect(config, prefix, dtype, config.num_hidden_layers, true);
}

std::vector<nn::ParamSpec> token_parameters(const VisionConfig& config, const std::string& prefix,
                                            DType dtype) {
  return collect(config, prefix, dtype, config.num_hidden_layers - 1, false);
}

Tensor image_tokens(std::span<const Tensor> params, const VisionConfig& config,
                    const std::string& prefix, Tensor pixels, const VisionOptions& options) {
  check(pixels.rank() == 4 && pixels.dim(1) == config.num_channels &&
            pixels.dim(2) == config.image_size && pixels.dim(3) == config.image_size,
        "[clip] pixels are {} but must be [b, {}, {}, {}]", to_string(pixels.shape()),
        config.num_channels, config.image_size, config.image_size);
  nn::Bound bound(token_parameters(config, prefix, options.dtype), params);
  const nn::Params top = prefix.empty() ? bound.root() : bound.root() / prefix;
  const Embeddings embeddings(top / "embeddings", config);
  const nn::LayerNorm before(top / "pre_layrnorm", config.hidden_size, config.layer_norm_eps);
  const Tensor x = before(embeddings(nn::as(pixels, options.dtype), options.precision));
  if (options.tap) {
    options.tap("embeddings", x);
  }
  // With a single layer nothing is run: the result is the input of the layers.
  return bound.run(layers_of(prefix, config.num_hidden_layers - 1), {x}, {}, {},
                   [&](const nn::Bound::Layer& layer, std::span<const Tensor> carry) {
                     const Layer run(layer.params, config.layer());
                     return std::vector<Tensor>{run(carry[0], {}, options.precision)};
                   })[0];
}

}  // namespace kinema::clip
