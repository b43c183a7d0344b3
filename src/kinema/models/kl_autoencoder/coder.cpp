#include "kinema/models/kl_autoencoder/coder.h"

#include <algorithm>
#include <optional>

#include "kinema/core/error.h"
#include "kinema/nn/attention_by_rows.h"
#include "kinema/nn/conv.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"
#include "kinema/nn/resnet.h"

namespace kinema::kl_autoencoder {
namespace {

constexpr double kNormEpsilon = 1e-6;

nn::ResnetBlock resnet(const nn::Params& params, int64_t in, int64_t out,
                       const AutoencoderConfig& c) {
  return {params, in, out, {.groups = c.norm_num_groups, .eps = kNormEpsilon}};
}

/// Attention among all pixels, with one head as wide as the channels, added to x.
class PixelAttention {
 public:
  PixelAttention(const nn::Params& params, int64_t channels, const AutoencoderConfig& c)
      : norm_(params / "group_norm", channels, c.norm_num_groups, kNormEpsilon),
        q_(params / "to_q", channels, channels, {}),
        k_(params / "to_k", channels, channels, {}),
        v_(params / "to_v", channels, channels, {}),
        out_(params / "to_out" / "0", channels, channels, {}) {}

  /// [b, c, h, w] -> the same.
  Tensor operator()(Tensor x, Precision precision) const {
    const int64_t b = x.dim(0);
    const int64_t c = x.dim(1);
    const Tensor tokens = reshape(transpose(norm_(x), {0, 2, 3, 1}), {b, -1, c});
    const auto one_head = [&](const nn::Linear& project) {
      return expand_dims(project(tokens, precision), Axis(2));
    };
    const Tensor y = nn::attention_by_rows(one_head(q_), one_head(k_), one_head(v_), precision);
    const Tensor out = out_(squeeze(y, Axis(2)), precision);
    return x + transpose(reshape(out, {b, x.dim(2), x.dim(3), c}), {0, 3, 1, 2});
  }

 private:
  nn::GroupNorm norm_;
  nn::Linear q_, k_, v_, out_;
};

class MidBlock {
 public:
  MidBlock(const nn::Params& params, int64_t channels, const AutoencoderConfig& c)
      : first_(resnet(params / "resnets" / "0", channels, channels, c)),
        attention_(params / "attentions" / "0", channels, c),
        last_(resnet(params / "resnets" / "1", channels, channels, c)) {}

  Tensor operator()(Tensor x, const CoderOptions& options) const {
    x = attention_(first_(x, {}, options.precision), options.precision);
    if (options.tap) {
      options.tap("mid_attention", x);
    }
    x = last_(x, {}, options.precision);
    if (options.tap) {
      options.tap("mid_block", x);
    }
    return x;
  }

 private:
  nn::ResnetBlock first_;
  PixelAttention attention_;
  nn::ResnetBlock last_;
};

/// A 1 x 1 convolution of the latents, which some autoencoders have.
std::optional<nn::Conv2d> pointwise(const nn::Params& params, int64_t channels, bool there) {
  return there ? std::optional(nn::Conv2d(params, channels, channels, 1)) : std::nullopt;
}

/// Resnets of one level, and the convolution that changes the resolution.
struct Level {
  std::vector<nn::ResnetBlock> resnets;
  std::optional<nn::Conv2d> resample;
};

void offer(const CoderOptions& options, const std::string& name, Tensor value) {
  if (options.tap) {
    options.tap(name, value);
  }
}

class Encoder {
 public:
  Encoder(const nn::Params& root, const AutoencoderConfig& c)
      : conv_in_(root / "encoder" / "conv_in", 3, c.block_out_channels[0], 3),
        mid_(root / "encoder" / "mid_block", c.block_out_channels.back(), c),
        norm_out_(root / "encoder" / "conv_norm_out", c.block_out_channels.back(),
                  c.norm_num_groups, kNormEpsilon),
        conv_out_(root / "encoder" / "conv_out", c.block_out_channels.back(), 2 * c.latent_channels,
                  3),
        quant_(pointwise(root / "quant_conv", 2 * c.latent_channels, c.use_quant_conv)) {
    int64_t channels = c.block_out_channels[0];
    for (size_t i = 0; i < c.block_out_channels.size(); ++i) {
      const nn::Params params = root / "encoder" / "down_blocks" / std::to_string(i);
      Level level;
      for (int64_t j = 0; j < c.layers_per_block; ++j) {
        level.resnets.push_back(
            resnet(params / "resnets" / std::to_string(j), channels, c.block_out_channels[i], c));
        channels = c.block_out_channels[i];
      }
      if (i + 1 < c.block_out_channels.size()) {
        level.resample.emplace(params / "downsamplers" / "0" / "conv", channels, channels, 3);
      }
      levels_.push_back(std::move(level));
    }
  }

  Tensor operator()(Tensor x, const CoderOptions& options) const {
    const Precision precision = options.precision;
    x = conv_in_(x, precision);
    offer(options, "conv_in", x);
    for (size_t i = 0; i < levels_.size(); ++i) {
      const Scope scope(x.graph(), "down" + std::to_string(i));
      for (const nn::ResnetBlock& block : levels_[i].resnets) {
        x = block(x, {}, precision);
      }
      if (levels_[i].resample) {
        // Zeros below and to the right only.
        x = (*levels_[i].resample)(x, {0, 1}, 2, precision);
      }
      offer(options, "down" + std::to_string(i), x);
    }
    x = mid_(x, options);
    if (options.tap) {
      offer(options, "conv_norm_out", norm_out_(x));
    }
    x = conv_out_(norm_out_, x, precision);
    return quant_ ? (*quant_)(x, precision) : x;
  }

 private:
  nn::Conv2d conv_in_;
  std::vector<Level> levels_;
  MidBlock mid_;
  nn::GroupNorm norm_out_;
  nn::Conv2d conv_out_;
  std::optional<nn::Conv2d> quant_;
};

class Decoder {
 public:
  Decoder(const nn::Params& root, const AutoencoderConfig& c)
      : post_quant_(pointwise(root / "post_quant_conv", c.latent_channels, c.use_post_quant_conv)),
        conv_in_(root / "decoder" / "conv_in", c.latent_channels, c.block_out_channels.back(), 3),
        mid_(root / "decoder" / "mid_block", c.block_out_channels.back(), c),
        norm_out_(root / "decoder" / "conv_norm_out", c.block_out_channels[0], c.norm_num_groups,
                  kNormEpsilon),
        conv_out_(root / "decoder" / "conv_out", c.block_out_channels[0], 3, 3) {
    const size_t levels = c.block_out_channels.size();
    int64_t channels = c.block_out_channels.back();
    for (size_t i = 0; i < levels; ++i) {
      const nn::Params params = root / "decoder" / "up_blocks" / std::to_string(i);
      const int64_t out = c.block_out_channels[levels - 1 - i];
      Level level;
      for (int64_t j = 0; j <= c.layers_per_block; ++j) {
        level.resnets.push_back(resnet(params / "resnets" / std::to_string(j), channels, out, c));
        channels = out;
      }
      if (i + 1 < levels) {
        level.resample.emplace(params / "upsamplers" / "0" / "conv", channels, channels, 3);
      }
      levels_.push_back(std::move(level));
    }
  }

  Tensor operator()(Tensor x, const CoderOptions& options) const {
    const Precision precision = options.precision;
    x = conv_in_(post_quant_ ? (*post_quant_)(x, precision) : x, precision);
    offer(options, "conv_in", x);
    x = mid_(x, options);
    for (size_t i = 0; i < levels_.size(); ++i) {
      const Scope scope(x.graph(), "up" + std::to_string(i));
      for (const nn::ResnetBlock& block : levels_[i].resnets) {
        x = block(x, {}, precision);
      }
      if (levels_[i].resample) {
        x = (*levels_[i].resample)(nn::resize_nearest(x, 2 * x.dim(2), 2 * x.dim(3)), precision);
      }
      offer(options, "up" + std::to_string(i), x);
    }
    if (options.tap) {
      offer(options, "conv_norm_out", norm_out_(x));
    }
    return conv_out_(norm_out_, x, precision);
  }

 private:
  std::optional<nn::Conv2d> post_quant_;
  nn::Conv2d conv_in_;
  MidBlock mid_;
  std::vector<Level> levels_;
  nn::GroupNorm norm_out_;
  nn::Conv2d conv_out_;
};

template <typename Coder>
std::vector<nn::ParamSpec> collect(const AutoencoderConfig& config, const CoderOptions& options) {
  validate(config);
  nn::SpecCollector specs([&](const std::string& key) {
    return key.find("norm") == std::string::npos ? options.weights_dtype : DType::F32;
  });
  const Coder coder(nn::Params(specs, ""), config);
  return specs.take();
}

/// One value per channel, f32 [c, 1, 1].
Tensor per_channel(Graph& graph, const std::vector<double>& values) {
  const std::vector<float> narrow(values.begin(), values.end());
  return constant_f32(graph, {static_cast<int64_t>(narrow.size()), 1, 1}, narrow);
}

}  // namespace

std::vector<nn::ParamSpec> encoder_parameters(const AutoencoderConfig& config,
                                              const CoderOptions& options) {
  return collect<Encoder>(config, options);
}

std::vector<nn::ParamSpec> decoder_parameters(const AutoencoderConfig& config,
                                              const CoderOptions& options) {
  return collect<Decoder>(config, options);
}

Tensor sample(const Moments& moments, Tensor noise) {
  return moments.mean + noise * exp(0.5 * moments.log_variance);
}

Moments encode(std::span<const Tensor> params, const AutoencoderConfig& config,
               const CoderOptions& options, Tensor images) {
  const int64_t cell = config.spatial();
  check(images.rank() == 4 && images.dim(1) == 3 && images.dim(2) % cell == 0 &&
            images.dim(3) % cell == 0,
        "[kl_autoencoder] images are {} but must be [b, 3, H, W] with multiples of {}",
        to_string(images.shape()), cell);
  const auto specs = encoder_parameters(config, options);
  nn::Binder binder(specs, params);
  const Scope scope(images.graph(), "encoder");
  const Encoder encoder(nn::Params(binder, ""), config);
  const Tensor both =
      nn::as(encoder(nn::as(images, options.activations_dtype), options), DType::F32);
  const std::vector<Tensor> halves = split(both, Axis(1), 2);
  return {.mean = halves[0], .log_variance = minimum(maximum(halves[1], -30.0), 20.0)};
}

Tensor decode(std::span<const Tensor> params, const AutoencoderConfig& config,
              const CoderOptions& options, Tensor latents) {
  check(latents.rank() == 4 && latents.dim(1) == config.latent_channels,
        "[kl_autoencoder] latents are {} but must be [b, {}, h, w]", to_string(latents.shape()),
        config.latent_channels);
  const auto specs = decoder_parameters(config, options);
  nn::Binder binder(specs, params);
  const Scope scope(latents.graph(), "decoder");
  const Decoder decoder(nn::Params(binder, ""), config);
  return nn::as(decoder(nn::as(latents, options.activations_dtype), options), DType::F32);
}

Tensor scaled(Tensor latents, const AutoencoderConfig& c) {
  if (!c.latents_mean.empty()) {
    Graph& graph = latents.graph();
    return (latents - per_channel(graph, c.latents_mean)) / per_channel(graph, c.latents_std) *
           c.scaling_factor;
  }
  return (latents - c.shift_factor) * c.scaling_factor;
}

Tensor scaled_deviation(const Moments& moments, const AutoencoderConfig& c) {
  const Tensor deviation = exp(0.5 * moments.log_variance);
  return (c.latents_std.empty() ? deviation
                                : deviation / per_channel(deviation.graph(), c.latents_std)) *
         c.scaling_factor;
}

Tensor unscaled(Tensor latents, const AutoencoderConfig& c) {
  if (!c.latents_mean.empty()) {
    Graph& graph = latents.graph();
    return latents * per_channel(graph, c.latents_std) / c.scaling_factor +
           per_channel(graph, c.latents_mean);
  }
  return latents / c.scaling_factor + c.shift_factor;
}

}  // namespace kinema::kl_autoencoder
