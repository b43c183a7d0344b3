#include <algorithm>
#include <array>

#include "kinema/model_files/names.h"

namespace kinema::model_files {
namespace {

constexpr std::array kOutside{
    Name{"input_blocks.0.0", "conv_in"},
    Name{"time_embed.0", "time_embedding.linear_1"},
    Name{"time_embed.2", "time_embedding.linear_2"},
    Name{"label_emb.0.0", "add_embedding.linear_1"},
    Name{"label_emb.0.2", "add_embedding.linear_2"},
    Name{"out.0", "conv_norm_out"},
    Name{"out.2", "conv_out"},
};

constexpr std::array kResnet{
    Name{"in_layers.0", "norm1"},          Name{"in_layers.2", "conv1"},
    Name{"emb_layers.1", "time_emb_proj"}, Name{"out_layers.0", "norm2"},
    Name{"out_layers.3", "conv2"},         Name{"skip_connection", "conv_shortcut"},
};

/// Inside attention modules both namings are equal.
constexpr Name same(std::string_view name) { return {name, name}; }
constexpr std::array kAttention{
    same("norm"),
    same("proj_in"),
    same("proj_out"),
    same("transformer_blocks.{}.norm1"),
    same("transformer_blocks.{}.norm2"),
    same("transformer_blocks.{}.norm3"),
    same("transformer_blocks.{}.attn1.to_q"),
    same("transformer_blocks.{}.attn1.to_k"),
    same("transformer_blocks.{}.attn1.to_v"),
    same("transformer_blocks.{}.attn1.to_out.0"),
    same("transformer_blocks.{}.attn2.to_q"),
    same("transformer_blocks.{}.attn2.to_k"),
    same("transformer_blocks.{}.attn2.to_v"),
    same("transformer_blocks.{}.attn2.to_out.0"),
    same("transformer_blocks.{}.ff.net.0.proj"),
    same("transformer_blocks.{}.ff.net.2"),
};

constexpr std::array kDownsampler{Name{"op", "conv"}};
constexpr std::array kUpsampler{Name{"conv", "conv"}};

// n = layers_per_block. Input blocks: conv_in, then n layers and a downsampler per level.
//
//   down_blocks.L.resnets.R      input_blocks.{L (n + 1) + R + 1}
//   down_blocks.L.downsamplers   input_blocks.{(L + 1) (n + 1)}

constexpr Numbering kDown{
    .diffusers = [](const Numbers& original, const Layout& layout) -> std::optional<Numbers> {
      const int64_t level = layout.layers_per_block + 1;
      const int64_t at = original[0] - 1;
      return at >= 0 && at % level < layout.layers_per_block
                 ? std::optional(Numbers{at / level, at % level})
                 : std::nullopt;
    },
    .original = [](const Numbers& n, const Layout& layout) -> std::optional<Numbers> {
      return n[1] < layout.layers_per_block
                 ? std::optional(Numbers{n[0] * (layout.layers_per_block + 1) + n[1] + 1})
                 : std::nullopt;
    }};

constexpr Numbering kDownsamplers{
    .diffusers = [](const Numbers& original, const Layout& layout) -> std::optional<Numbers> {
      const int64_t level = layout.layers_per_block + 1;
      return original[0] > 0 && original[0] % level == 0
                 ? std::optional(Numbers{original[0] / level - 1})
                 : std::nullopt;
    },
    .original = [](const Numbers& n, const Layout& layout) -> std::optional<Numbers> {
      return Numbers{(n[0] + 1) * (layout.layers_per_block + 1)};
    }};

// Output blocks: n + 1 layers per level, with the upsampler in the last of them.
//
//   up_blocks.L.resnets.R        output_blocks.{L (n + 1) + R}
//   up_blocks.L.upsamplers       output_blocks.{L (n + 1) + n}, after the attention if there
//   is one

constexpr Numbering kUp{
    .diffusers = [](const Numbers& original, const Layout& layout) -> std::optional<Numbers> {
      const int64_t level = layout.layers_per_block + 1;
      return Numbers{original[0] / level, original[0] % level};
    },
    .original = [](const Numbers& n, const Layout& layout) -> std::optional<Numbers> {
      return n[1] <= layout.layers_per_block
                 ? std::optional(Numbers{n[0] * (layout.layers_per_block + 1) + n[1]})
                 : std::nullopt;
    }};

std::optional<Numbers> upsampler(const Numbers& original, const Layout& layout) {
  const int64_t level = layout.layers_per_block + 1;
  return original[0] % level == layout.layers_per_block
             ? std::optional(Numbers{original[0] / level})
             : std::nullopt;
}

template <bool kBehindAttention>
std::optional<Numbers> upsampler_block(const Numbers& n, const Layout& layout) {
  const auto level = static_cast<size_t>(n[0]);
  const bool attention = level < layout.up_attention.size() && layout.up_attention[level];
  return attention == kBehindAttention
             ? std::optional(
                   Numbers{n[0] * (layout.layers_per_block + 1) + layout.layers_per_block})
             : std::nullopt;
}

constexpr Numbering kUpsamplers{.diffusers = upsampler, .original = upsampler_block<true>};
constexpr Numbering kPlainUpsamplers{.diffusers = upsampler, .original = upsampler_block<false>};

constexpr std::array kPlaces{
    Place{"", "", kOutside},
    Place{"input_blocks.{}.0.", "down_blocks.{}.resnets.{}.", kResnet, &kDown},
    Place{"input_blocks.{}.1.", "down_blocks.{}.attentions.{}.", kAttention, &kDown},
    Place{"input_blocks.{}.0.", "down_blocks.{}.downsamplers.0.", kDownsampler, &kDownsamplers},
    Place{"middle_block.0.", "mid_block.resnets.0.", kResnet},
    Place{"middle_block.1.", "mid_block.attentions.0.", kAttention},
    Place{"middle_block.2.", "mid_block.resnets.1.", kResnet},
    Place{"output_blocks.{}.0.", "up_blocks.{}.resnets.{}.", kResnet, &kUp},
    Place{"output_blocks.{}.1.", "up_blocks.{}.attentions.{}.", kAttention, &kUp},
    Place{"output_blocks.{}.2.", "up_blocks.{}.upsamplers.0.", kUpsampler, &kUpsamplers},
    Place{"output_blocks.{}.1.", "up_blocks.{}.upsamplers.0.", kUpsampler, &kPlainUpsamplers},
};

// ---- ControlNets: the encoder, and ----------------------------------------------------------

constexpr std::array kControlOutside{
    Name{"input_blocks.0.0", "conv_in"},
    Name{"time_embed.0", "time_embedding.linear_1"},
    Name{"time_embed.2", "time_embedding.linear_2"},
    Name{"label_emb.0.0", "add_embedding.linear_1"},
    Name{"label_emb.0.2", "add_embedding.linear_2"},
    Name{"zero_convs.{}.0", "controlnet_down_blocks.{}"},
    Name{"middle_block_out.0", "controlnet_mid_block"},
    Name{"input_hint_block.0", "controlnet_cond_embedding.conv_in"},
    Name{"input_hint_block.2", "controlnet_cond_embedding.blocks.0"},
    Name{"input_hint_block.4", "controlnet_cond_embedding.blocks.1"},
    Name{"input_hint_block.6", "controlnet_cond_embedding.blocks.2"},
    Name{"input_hint_block.8", "controlnet_cond_embedding.blocks.3"},
    Name{"input_hint_block.10", "controlnet_cond_embedding.blocks.4"},
    Name{"input_hint_block.12", "controlnet_cond_embedding.blocks.5"},
    Name{"input_hint_block.14", "controlnet_cond_embedding.conv_out"},
};

constexpr std::array kControlPlaces{
    Place{"", "", kControlOutside},
    Place{"input_blocks.{}.0.", "down_blocks.{}.resnets.{}.", kResnet, &kDown},
    Place{"input_blocks.{}.1.", "down_blocks.{}.attentions.{}.", kAttention, &kDown},
    Place{"input_blocks.{}.0.", "down_blocks.{}.downsamplers.0.", kDownsampler, &kDownsamplers},
    Place{"middle_block.0.", "mid_block.resnets.0.", kResnet},
    Place{"middle_block.1.", "mid_block.attentions.0.", kAttention},
    Place{"middle_block.2.", "mid_block.resnets.1.", kResnet},
};

Layout layout(std::span<const std::string_view> names) {
  int64_t layers = 0;           // of diffusers' first level
  int64_t first_sampler = 0;    // the original's first input block that is a downsampler
  int64_t last_block = 0;       // the original's last input block
  std::vector<int64_t> behind;  // the original's output blocks with an upsampler after attention
  std::vector<bool> attention;
  for (const std::string_view name : names) {
    if (const auto at = match("down_blocks.0.resnets.{}.conv1.weight", name)) {
      layers = std::max(layers, (*at)[0] + 1);
    } else if (const auto at = match("up_blocks.{}.attentions.0.norm.weight", name)) {
      const auto level = static_cast<size_t>((*at)[0]);
      attention.resize(std::max(attention.size(), level + 1));
      attention[level] = true;
    } else if (const auto at = match("input_blocks.{}.0.op.weight", name)) {
      first_sampler = first_sampler == 0 ? (*at)[0] : std::min(first_sampler, (*at)[0]);
    } else if (const auto at = match("input_blocks.{}.0.", name, Spelling::DOTS, true)) {
      last_block = std::max(last_block, (*at)[0]);
    } else if (const auto at = match("output_blocks.{}.2.conv.weight", name)) {
      behind.push_back((*at)[0]);
    }
  }
  Layout out;
  // A UNet of one level has no downsampler: all input blocks are its layers.
  out.layers_per_block = layers > 0          ? layers
                         : first_sampler > 1 ? first_sampler - 1
                         : last_block > 0    ? last_block
                                             : out.layers_per_block;
  for (const int64_t block : behind) {
    const auto level = static_cast<size_t>(block / (out.layers_per_block + 1));
    attention.resize(std::max(attention.size(), level + 1));
    attention[level] = true;
  }
  if (layers > 0 || last_block > 0) {
    out.up_attention = std::move(attention);
  }
  return out;
}

}  // namespace

const NameTable kUNetNames{.model = "Stable Diffusion XL", .places = kPlaces, .layout = layout};
// A table of its own identifies the family.
const NameTable kStableDiffusionNames{
    .model = "Stable Diffusion 1 and 2", .places = kPlaces, .layout = layout};
const NameTable kControlNetNames{.model = "ControlNet", .places = kControlPlaces, .layout = layout};

}  // namespace kinema::model_files
