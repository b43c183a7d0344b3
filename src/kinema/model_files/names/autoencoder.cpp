#include <algorithm>
#include <array>

#include "kinema/model_files/names.h"

namespace kinema::model_files {
namespace {

constexpr Name same(std::string_view name) { return {name, name}; }

constexpr std::array kOutside{
    same("quant_conv"),
    same("post_quant_conv"),
    same("encoder.conv_in"),
    same("encoder.conv_out"),
    Name{"encoder.norm_out", "encoder.conv_norm_out"},
    same("decoder.conv_in"),
    same("decoder.conv_out"),
    Name{"decoder.norm_out", "decoder.conv_norm_out"},
};

constexpr std::array kResnet{
    same("norm1"),
    same("conv1"),
    same("norm2"),
    same("conv2"),
    Name{"nin_shortcut", "conv_shortcut"},
};

constexpr std::array kAttention{
    Name{"norm", "group_norm"},
    Name{"q", "to_q", Cut::LINEAR},
    Name{"k", "to_k", Cut::LINEAR},
    Name{"v", "to_v", Cut::LINEAR},
    Name{"proj_out", "to_out.0", Cut::LINEAR},
};

// Diffusers' names before it used those of transformers.
constexpr std::array kOldAttention{
    Name{"query", "to_q", Cut::LINEAR},
    Name{"key", "to_k", Cut::LINEAR},
    Name{"value", "to_v", Cut::LINEAR},
    Name{"proj_attn", "to_out.0", Cut::LINEAR},
};

constexpr std::array kConv{same("conv")};

/// The original numbers the decoder's levels from the outermost one.
std::optional<Numbers> from_other_end(const Numbers& numbers, const Layout& layout) {
  Numbers out = numbers;
  out[0] = layout.levels - 1 - out[0];
  return out[0] >= 0 ? std::optional(std::move(out)) : std::nullopt;
}
constexpr Numbering kFromOtherEnd{.diffusers = from_other_end, .original = from_other_end};

constexpr std::array kPlaces{
    Place{"", "", kOutside},
    Place{"encoder.down.{}.block.{}.", "encoder.down_blocks.{}.resnets.{}.", kResnet},
    Place{"encoder.down.{}.downsample.", "encoder.down_blocks.{}.downsamplers.0.", kConv},
    Place{"encoder.mid.block_1.", "encoder.mid_block.resnets.0.", kResnet},
    Place{"encoder.mid.attn_1.", "encoder.mid_block.attentions.0.", kAttention},
    Place{"encoder.mid.block_2.", "encoder.mid_block.resnets.1.", kResnet},
    Place{"decoder.up.{}.block.{}.", "decoder.up_blocks.{}.resnets.{}.", kResnet, &kFromOtherEnd},
    Place{"decoder.up.{}.upsample.", "decoder.up_blocks.{}.upsamplers.0.", kConv, &kFromOtherEnd},
    Place{"decoder.mid.block_1.", "decoder.mid_block.resnets.0.", kResnet},
    Place{"decoder.mid.attn_1.", "decoder.mid_block.attentions.0.", kAttention},
    Place{"decoder.mid.block_2.", "decoder.mid_block.resnets.1.", kResnet},
    Place{"encoder.mid_block.attentions.0.", "encoder.mid_block.attentions.0.", kOldAttention},
    Place{"decoder.mid_block.attentions.0.", "decoder.mid_block.attentions.0.", kOldAttention},
};

Layout layout(std::span<const std::string_view> names) {
  int64_t levels = 0;
  for (const std::string_view name : names) {
    for (const std::string_view pattern :
         {"decoder.up.{}.block.0.", "encoder.down.{}.block.0.", "decoder.up_blocks.{}.resnets.0.",
          "encoder.down_blocks.{}.resnets.0."}) {
      if (const auto at = match(pattern, name, Spelling::DOTS, true)) {
        levels = std::max(levels, (*at)[0] + 1);
      }
    }
  }
  Layout out;
  out.levels = levels > 0 ? levels : out.levels;
  return out;
}

}  // namespace

const NameTable kAutoencoderNames{
    .model = "the autoencoder", .places = kPlaces, .mixed = true, .layout = layout};

}  // namespace kinema::model_files
