#include "kinema/models/unet/controlnet.h"
#include "kinema/models/unet/levels.h"
#include "kinema/models/unet/unet.h"

namespace kinema::unet {
namespace {

double resnet_flops(const Unit& unit, const UNetConfig& c, double pixels) {
  const auto in = static_cast<double>(unit.in);
  const auto out = static_cast<double>(unit.out);
  const double shortcut = unit.in == unit.out ? 0.0 : in * out;
  return 2 * pixels * (9 * in * out + 9 * out * out + shortcut) +
         2 * static_cast<double>(c.time_dim()) * out;
}

double transformer_flops(const TransformerSpec& place, const UNetConfig& c, double pixels,
                         double text) {
  const auto d = static_cast<double>(place.channels);
  const double self = 8 * pixels * d * d + 4 * pixels * pixels * d;
  const double cross = 4 * pixels * d * d +
                       4 * text * static_cast<double>(c.cross_attention_dim) * d +
                       4 * pixels * text * d;
  const double feed_forward = 2 * pixels * d * d * 12;
  return 4 * pixels * d * d + static_cast<double>(place.layers) * (self + cross + feed_forward);
}

/// The levels' convolutions and matrix products for h x w latents.
double level_flops(const Levels& levels, const UNetConfig& config, int64_t h, int64_t w,
                   int64_t text_tokens) {
  const auto text = static_cast<double>(text_tokens);
  double pixels = static_cast<double>(h) * static_cast<double>(w);
  double flops = 0;
  const auto add = [&](const Stage& stage) {
    for (const Unit& unit : stage.units) {
      flops += resnet_flops(unit, config, pixels);
      flops += unit.attention ? transformer_flops(*unit.attention, config, pixels, text) : 0.0;
    }
  };
  const auto resample = [&](const Stage& stage, double factor) {
    if (!stage.resample.empty()) {
      pixels *= factor;
      const auto channels = static_cast<double>(stage.channels);
      flops += 18 * pixels * channels * channels;
    }
  };
  for (const Stage& stage : levels.down) {
    add(stage);
    resample(stage, 0.25);
  }
  add(levels.mid);
  for (const Stage& stage : levels.up) {
    add(stage);
    resample(stage, 4.0);
  }
  return flops;
}

/// Convolutions of 3 x 3 pixels.
double convolution_flops(int64_t in, int64_t out, double pixels) {
  return 18 * pixels * static_cast<double>(in) * static_cast<double>(out);
}

}  // namespace

double forward_flops(const UNetConfig& config, int64_t h, int64_t w, int64_t text_tokens) {
  const double pixels = static_cast<double>(h) * static_cast<double>(w);
  return convolution_flops(config.in_channels + config.out_channels, config.block_out_channels[0],
                           pixels) +
         level_flops(levels_of(config), config, h, w, text_tokens);
}

double forward_flops(const ControlNetConfig& config, int64_t h, int64_t w, int64_t text_tokens,
                     int64_t pictures) {
  const UNetConfig& encoder = config.encoder;
  const double latents = static_cast<double>(h) * static_cast<double>(w);
  const std::vector<int64_t>& channels = config.conditioning_embedding_out_channels;
  double pixels = latents * static_cast<double>(config.cell() * config.cell());
  double picture = convolution_flops(config.conditioning_channels, channels[0], pixels) +
                   convolution_flops(channels.back(), encoder.block_out_channels[0], latents);
  for (size_t i = 0; i + 1 < channels.size(); ++i) {
    picture += convolution_flops(channels[i], channels[i], pixels);
    pixels /= 4;
    picture += convolution_flops(channels[i], channels[i + 1], pixels);
  }
  return static_cast<double>(pictures) * picture +
         convolution_flops(encoder.in_channels, encoder.block_out_channels[0], latents) +
         level_flops(encoder_levels(encoder), encoder, h, w, text_tokens);
}

}  // namespace kinema::unet
