#include "kinema/models/unet/controlnet.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/models/unet/control_types.h"
#include "kinema/models/unet/entry.h"
#include "kinema/models/unet/levels.h"
#include "kinema/nn/quantized_modules.h"

namespace kinema::unet {
namespace {

/// The picture as a feature map of the latents' size: convolutions with SiLU between them, each
/// second of which halves rows and columns.
class PictureEmbedding {
 public:
  PictureEmbedding(const nn::Params& params, const ControlNetConfig& c)
      : conv_in_(params / "conv_in", c.conditioning_channels,
                 c.conditioning_embedding_out_channels[0], 3),
        conv_out_(params / "conv_out", c.conditioning_embedding_out_channels.back(),
                  c.encoder.block_out_channels[0], 3, nn::Init::zeros()) {
    const std::vector<int64_t>& channels = c.conditioning_embedding_out_channels;
    for (size_t i = 0; i + 1 < channels.size(); ++i) {
      blocks_.emplace_back(params / "blocks" / std::to_string(2 * i), channels[i], channels[i], 3);
      blocks_.emplace_back(params / "blocks" / std::to_string(2 * i + 1), channels[i],
                           channels[i + 1], 3);
    }
  }

  Tensor operator()(Tensor picture, const nn::ModelOptions& options, const Tap& tap) const {
    const Scope scope(picture.graph(), "controlnet_cond_embedding");
    Tensor x = conv_in_(nn::as(picture, options.activations_dtype), options.precision);
    if (tap) {
      tap("cond_embedding.conv_in", x);
    }
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const int64_t stride = i % 2 == 0 ? 1 : 2;
      x = blocks_[i](silu(x), {1, 1}, stride, options.precision);
    }
    x = conv_out_(silu(x), options.precision);
    if (tap) {
      tap("cond_embedding", x);
    }
    return x;
  }

 private:
  nn::Conv2d conv_in_;
  std::vector<nn::Conv2d> blocks_;
  nn::Conv2d conv_out_;
};

/// The parameters outside the levels.
struct Parts {
  Parts(const nn::Params& root, const ControlNetConfig& c)
      : entry(root, c.encoder),
        picture(root / "controlnet_cond_embedding", c),
        types(c.is_union() ? std::optional<ControlTypes>(std::in_place, root, c) : std::nullopt),
        middle(root / "controlnet_mid_block", c.encoder.block_out_channels.back(),
               c.encoder.block_out_channels.back(), 1, nn::Init::zeros()) {
    const std::vector<int64_t> channels = skip_channels(c.encoder);
    for (size_t i = 0; i < channels.size(); ++i) {
      skips.emplace_back(root / "controlnet_down_blocks" / std::to_string(i), channels[i],
                         channels[i], 1, nn::Init::zeros());
    }
  }

  Entry entry;
  PictureEmbedding picture;
  std::optional<ControlTypes> types;
  std::vector<nn::Conv2d> skips;
  nn::Conv2d middle;
};

void check_pictures(const ControlNetInputs& in, const ControlNetConfig& c) {
  const auto count = std::ssize(in.pictures);
  check(count > 0 && (count == 1 || c.is_union()),
        "[unet] {} pictures are given to a ControlNet that follows {}", count,
        c.is_union() ? "one or more" : "one");
  check(!c.is_union() || std::ssize(in.types) == count,
        "[unet] there are {} pictures, but kinds of {}", count, in.types.size());
  for (const int64_t type : in.types) {
    check(!c.is_union() || (type >= 0 && type < c.num_control_type),
          "[unet] the picture's kind is {}, but the union ControlNet has kinds 0 to {}", type,
          c.num_control_type - 1);
  }
  const Tensor x = in.unet.latents;
  const Dims expected{x.dim(0), c.conditioning_channels, c.cell() * x.dim(2), c.cell() * x.dim(3)};
  for (const Tensor& picture : in.pictures) {
    check(picture.shape().dims == expected, "[unet] the picture is {} but must be {}",
          to_string(picture.shape()), to_string(expected));
  }
  check(in.scale && in.scale.shape().dims == Dims{count},
        "[unet] the scales of control are {} but must be [{}]",
        in.scale ? to_string(in.scale.shape()) : "not given", count);
}

/// The embeddings of the pictures, to be added to the first convolution's result x.
Tensor embedded(const Parts& parts, const ControlNetConfig& config, const nn::ModelOptions& options,
                const ControlNetInputs& in, Tensor x) {
  std::vector<Tensor> maps;
  for (Tensor picture : in.pictures) {
    picture = config.is_bgr ? reverse(picture, Axis(1)) : picture;
    maps.push_back(parts.picture(picture, options, in.unet.tap));
  }
  return parts.types ? parts.types->fuse(maps, in.types, in.scale, x, options.precision)
                     : maps.front();
}

/// The factor of result i of n, f32 [1, 1, 1, 1]; empty: 1.
Tensor factor_of(const ControlNetInputs& in, const ControlNetConfig& config, size_t i, size_t n) {
  const bool rises = in.rising && !config.global_pool_conditions;
  const double rising =
      rises ? std::pow(10.0, static_cast<double>(i) / static_cast<double>(n - 1) - 1.0) : 1.0;
  // Several pictures of one network have their factors at its start.
  if (in.pictures.size() > 1) {
    return rises ? constant(in.scale.graph(), rising, Shape{DType::F32, {1, 1, 1, 1}}) : Tensor();
  }
  const Tensor scale = reshape(nn::as(in.scale, DType::F32), {1, 1, 1, 1});
  return rises ? scale * rising : scale;
}

}  // namespace

std::vector<nn::ParamSpec> parameters(const ControlNetConfig& config,
                                      const nn::ModelOptions& options) {
  validate(config);
  nn::SpecCollector specs = spec_collector(options);
  const Parts parts(nn::Params(specs, ""), config);
  open_levels(specs, encoder_levels(config.encoder), config.encoder, options.scan_layers);
  return finished(specs, options);
}

std::vector<Tensor> text_keys(std::span<const Tensor> params, const ControlNetConfig& config,
                              const nn::ModelOptions& options, Tensor text) {
  nn::Bound bound(parameters(config, options), params,
                  nn::quantized_products(options.quantization, nn::plain_module_path));
  return keys_of(bound, encoder_levels(config.encoder), config.encoder, options, text);
}

std::vector<std::array<int64_t, 3>> text_key_sizes(const ControlNetConfig& config) {
  return text_key_sizes(encoder_levels(config.encoder));
}

Residuals controlnet(std::span<const Tensor> params, const ControlNetConfig& config,
                     const nn::ModelOptions& options, const ControlNetInputs& in) {
  const UNetConfig& encoder = config.encoder;
  const Levels levels = encoder_levels(encoder);
  check_inputs(in.unet, encoder, options, 2 * transformers(levels).size());
  check_pictures(in, config);
  nn::Bound bound(parameters(config, options), params,
                  nn::quantized_products(options.quantization, nn::plain_module_path),
                  nn::Dropout(options.low_rank_dropout, in.unet.dropout_key));
  const Parts parts(bound.root(), config);
  Tensor embedding = parts.entry.embed(in.unet, options);
  if (parts.types) {
    embedding = embedding + parts.types->embed(in.types, embedding.graph(), options.precision);
  }
  const Tensor temb = nn::as(silu(embedding), options.activations_dtype);
  Tensor x = parts.entry.convolve(in.unet, options);
  x = x + embedded(parts, config, options, in, x);
  std::vector<Tensor> keys =
      in.unet.keys.empty() ? keys_of(bound, levels, encoder, options, in.unet.text) : in.unet.keys;
  Walk walk(bound, encoder, options, in.unet.tap, std::move(keys), temb);
  std::vector<Tensor> skips;
  x = walk.down(x, levels.down, skips);
  x = walk.middle(x, levels.mid);
  const size_t count = skips.size() + 1;
  const auto result = [&](const nn::Conv2d& conv, Tensor value, size_t i) {
    Tensor out = conv(value, options.precision);
    if (config.global_pool_conditions) {
      out = nn::as(mean(nn::as(out, DType::F32), {2, 3}, true), out.dtype());
    }
    const Tensor factor = factor_of(in, config, i, count);
    return factor ? nn::as(nn::as(out, DType::F32) * factor, out.dtype()) : out;
  };
  const Scope scope(x.graph(), "controlnet_outputs");
  Residuals out;
  for (size_t i = 0; i < skips.size(); ++i) {
    out.skips.push_back(result(parts.skips[i], skips[i], i));
  }
  out.mid = result(parts.middle, x, skips.size());
  return out;
}

}  // namespace kinema::unet
