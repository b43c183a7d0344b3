#include <array>

#include "kinema/model_files/names.h"

// Wan's autoencoder: https://github.com/Wan-Video/Wan2.1 (wan/modules/vae.py), and Wan 2.2's, whose
// levels are modules of their own.
namespace kinema::model_files {
namespace {

constexpr Name same(std::string_view name) { return {name, name}; }

constexpr std::array kOutside{
    Name{"conv1", "quant_conv"},
    Name{"conv2", "post_quant_conv"},
    Name{"encoder.conv1", "encoder.conv_in"},
    Name{"encoder.head.0.gamma", "encoder.norm_out.gamma"},
    Name{"encoder.head.2", "encoder.conv_out"},
    Name{"decoder.conv1", "decoder.conv_in"},
    Name{"decoder.head.0.gamma", "decoder.norm_out.gamma"},
    Name{"decoder.head.2", "decoder.conv_out"},
};

constexpr std::array kResnet{
    Name{"residual.0.gamma", "norm1.gamma"}, Name{"residual.2", "conv1"},
    Name{"residual.3.gamma", "norm2.gamma"}, Name{"residual.6", "conv2"},
    Name{"shortcut", "conv_shortcut"},
};

constexpr std::array kAttention{same("norm.gamma"), same("to_qkv"), same("proj")};

constexpr std::array kResample{same("resample.1"), same("time_conv")};

/// Modules of a decoder's level: residual blocks, one more than the encoder's, and resampling.
int64_t resnets(const Layout& layout) { return layout.layers_per_block + 1; }

/// Wan 2.1 counts all modules of the decoder: [n] and [level, resnet].
std::optional<Numbers> resnet_of(const Numbers& n, const Layout& layout) {
  const int64_t each = resnets(layout) + 1;
  return n[0] % each < resnets(layout) ? std::optional(Numbers{n[0] / each, n[0] % each})
                                       : std::nullopt;
}
std::optional<Numbers> module_of_resnet(const Numbers& n, const Layout& layout) {
  return n[1] < resnets(layout) ? std::optional(Numbers{n[0] * (resnets(layout) + 1) + n[1]})
                                : std::nullopt;
}
constexpr Numbering kFlatResnets{.diffusers = resnet_of, .original = module_of_resnet};

/// [n] and [level].
std::optional<Numbers> upsampler_of(const Numbers& n, const Layout& layout) {
  const int64_t each = resnets(layout) + 1;
  return n[0] % each == resnets(layout) ? std::optional(Numbers{n[0] / each}) : std::nullopt;
}
std::optional<Numbers> module_of_upsampler(const Numbers& n, const Layout& layout) {
  return Numbers{n[0] * (resnets(layout) + 1) + resnets(layout)};
}
constexpr Numbering kFlatUpsamplers{.diffusers = upsampler_of, .original = module_of_upsampler};

/// Wan 2.2: the resampling is the last module of its level, [level, module] and [level].
std::optional<Numbers> level_down(const Numbers& n, const Layout& layout) {
  return n[1] == layout.layers_per_block ? std::optional(Numbers{n[0]}) : std::nullopt;
}
std::optional<Numbers> module_down(const Numbers& n, const Layout& layout) {
  return Numbers{n[0], layout.layers_per_block};
}
constexpr Numbering kDownsampler{.diffusers = level_down, .original = module_down};
std::optional<Numbers> level_up(const Numbers& n, const Layout& layout) {
  return n[1] == resnets(layout) ? std::optional(Numbers{n[0]}) : std::nullopt;
}
std::optional<Numbers> module_up(const Numbers& n, const Layout& layout) {
  return Numbers{n[0], resnets(layout)};
}
constexpr Numbering kUpsampler{.diffusers = level_up, .original = module_up};

constexpr std::array kPlaces{
    Place{"", "", kOutside},
    Place{"encoder.middle.0.", "encoder.mid_block.resnets.0.", kResnet},
    Place{"encoder.middle.1.", "encoder.mid_block.attentions.0.", kAttention},
    Place{"encoder.middle.2.", "encoder.mid_block.resnets.1.", kResnet},
    Place{"decoder.middle.0.", "decoder.mid_block.resnets.0.", kResnet},
    Place{"decoder.middle.1.", "decoder.mid_block.attentions.0.", kAttention},
    Place{"decoder.middle.2.", "decoder.mid_block.resnets.1.", kResnet},
    // Wan 2.1
    Place{"encoder.downsamples.{}.", "encoder.down_blocks.{}.", kResnet},
    Place{"encoder.downsamples.{}.", "encoder.down_blocks.{}.", kResample},
    Place{"decoder.upsamples.{}.", "decoder.up_blocks.{}.resnets.{}.", kResnet, &kFlatResnets},
    Place{"decoder.upsamples.{}.", "decoder.up_blocks.{}.upsamplers.0.", kResample,
          &kFlatUpsamplers},
    // Wan 2.2
    Place{"encoder.downsamples.{}.downsamples.{}.", "encoder.down_blocks.{}.resnets.{}.", kResnet},
    Place{"encoder.downsamples.{}.downsamples.{}.", "encoder.down_blocks.{}.downsampler.",
          kResample, &kDownsampler},
    Place{"decoder.upsamples.{}.upsamples.{}.", "decoder.up_blocks.{}.resnets.{}.", kResnet},
    Place{"decoder.upsamples.{}.upsamples.{}.", "decoder.up_blocks.{}.upsampler.", kResample,
          &kUpsampler},
};

}  // namespace

const NameTable kWanVaeNames{.model = "Wan's autoencoder", .places = kPlaces};

}  // namespace kinema::model_files
