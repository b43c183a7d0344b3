#include "kinema/models/clip/vision.h"

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"
#include "kinema/nn/attention.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"

namespace kinema::clip {
namespace {

Tensor activate(Tensor x, Activation kind) {
  switch (kind) {
    case Activation::GELU:
      return gelu_erf(x);
    case Activation::QUICK_GELU:
      return x * logistic(1.702 * x);
    case Activation::GELU_TANH:
      return gelu_tanh(x);
  }
  fail("[clip] unknown activation {}", static_cast<int>(kind));
}

/// Pixels to tokens: a linear map of each patch, the class token before them, a learned position on
/// each.
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
    // A kernel as large as its stride is one product over each patch; pixels that fill no whole
    // patch are left out.
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

nn::Linear linear(const nn::Params& params, int64_t in, int64_t out) {
  return {params, in, out, {}};
}

/// x += Attention(norm(x)); x += MLP(norm(x)).
class Layer {
 public:
  Layer(const nn::Params& params, const VisionConfig& c)
      : heads_(c.num_attention_heads),
        activation_(c.hidden_act),
        norm1_(params / "layer_norm1", c.hidden_size, c.layer_norm_eps),
        q_(linear(params / "self_attn" / "q_proj", c.hidden_size, c.hidden_size)),
        k_(linear(params / "self_attn" / "k_proj", c.hidden_size, c.hidden_size)),
        v_(linear(params / "self_attn" / "v_proj", c.hidden_size, c.hidden_size)),
        out_(linear(params / "self_attn" / "out_proj", c.hidden_size, c.hidden_size)),
        norm2_(params / "layer_norm2", c.hidden_size, c.layer_norm_eps),
        up_(linear(params / "mlp" / "fc1", c.hidden_size, c.intermediate_size)),
        down_(linear(params / "mlp" / "fc2", c.intermediate_size, c.hidden_size)) {}

  Tensor operator()(Tensor x, Precision precision) const {
    const Tensor y = norm1_(x);
    const Tensor attended =
        nn::attention(heads(q_(y, precision)), heads(k_(y, precision)), heads(v_(y, precision)),
                      {.kind = nn::AttentionKind::FLASH, .precision = precision});
    x = x + out_(reshape(attended, x.shape().dims), precision);
    return x + down_(activate(up_(norm2_(x), precision), activation_), precision);
  }

 private:
  /// [b, t, d] -> [b, t, n, d / n].
  Tensor heads(Tensor x) const { return reshape(x, {x.dim(0), x.dim(1), heads_, -1}); }

  int64_t heads_;
  Activation activation_;
  nn::LayerNorm norm1_;
  nn::Linear q_, k_, v_, out_;
  nn::LayerNorm norm2_;
  nn::Linear up_, down_;
};

constexpr const char* kStackedLayer = "{}";

nn::Params root(nn::Params::Source& source, const std::string& prefix) {
  return prefix.empty() ? nn::Params(source, "") : nn::Params(source, prefix);
}

nn::Params layer_params(nn::Params::Source& source, const std::string& prefix) {
  return root(source, prefix) / "encoder" / "layers" / kStackedLayer;
}

/// The specs of so many layers; `whole` adds what comes behind the layers.
std::vector<nn::ParamSpec> collect(const VisionConfig& config, const std::string& prefix,
                                   DType dtype, int64_t layers, bool whole) {
  validate(config);
  nn::SpecCollector specs([&](const std::string& key) {
    return key.find("norm") == std::string::npos ? dtype : DType::F32;
  });
  const nn::Params top = root(specs, prefix);
  const Embeddings embeddings(top / "embeddings", config);
  // The key is misspelt in every checkpoint.
  const nn::LayerNorm before(top / "pre_layrnorm", config.hidden_size, config.layer_norm_eps);
  if (whole) {
    const nn::LayerNorm after(top / "post_layernorm", config.hidden_size, config.layer_norm_eps);
  }
  if (layers > 0) {
    specs.set_layers(layers);
    const Layer layer(layer_params(specs, prefix), config);
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
  const auto specs = token_parameters(config, prefix, options.dtype);
  nn::Binder binder(specs, params);
  const nn::Params top = root(binder, prefix);
  const Embeddings embeddings(top / "embeddings", config);
  const nn::LayerNorm before(top / "pre_layrnorm", config.hidden_size, config.layer_norm_eps);
  const Tensor x = before(embeddings(nn::as(pixels, options.dtype), options.precision));
  if (options.tap) {
    options.tap("embeddings", x);
  }

  std::vector<std::string> keys;
  std::vector<Tensor> stacks;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].layers > 0) {
      keys.push_back(specs[i].name);
      stacks.push_back(params[i]);
    }
  }
  if (stacks.empty()) {
    return x;  // one layer: the last but one is what it begins with
  }
  return scan({x}, stacks, {.length = config.num_hidden_layers - 1},
              [&](std::span<const Tensor> carry, std::span<const Tensor> tensors) -> ScanResult {
                nn::Binder one;
                for (size_t i = 0; i < keys.size(); ++i) {
                  one.add(keys[i], tensors[i]);
                }
                const Layer layer(layer_params(one, prefix), config);
                return {.carry = {layer(carry[0], options.precision)}};
              })
      .carry[0];
}

}  // namespace kinema::clip
