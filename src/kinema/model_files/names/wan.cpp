#include <algorithm>
#include <array>

#include "kinema/model_files/names.h"

namespace kinema::model_files {
namespace {

// `head.modulation` and `img_emb.emb_pos` are parameters, not modules.
constexpr std::array kOutside{
    Name{"patch_embedding", "patch_embedding"},
    Name{"vace_patch_embedding", "vace_patch_embedding"},
    Name{"text_embedding.0", "condition_embedder.text_embedder.linear_1"},
    Name{"text_embedding.2", "condition_embedder.text_embedder.linear_2"},
    Name{"time_embedding.0", "condition_embedder.time_embedder.linear_1"},
    Name{"time_embedding.2", "condition_embedder.time_embedder.linear_2"},
    Name{"time_projection.1", "condition_embedder.time_proj"},
    Name{"img_emb.proj.0", "condition_embedder.image_embedder.norm1"},
    Name{"img_emb.proj.1", "condition_embedder.image_embedder.ff.net.0.proj"},
    Name{"img_emb.proj.3", "condition_embedder.image_embedder.ff.net.2"},
    Name{"img_emb.proj.4", "condition_embedder.image_embedder.norm2"},
    Name{"img_emb.emb_pos", "condition_embedder.image_embedder.pos_embed"},
    Name{"ref_conv", "ref_conv"},
    Name{"control_adapter.conv", "control_adapter.conv"},
    Name{"control_adapter.residual_blocks.0.conv1", "control_adapter.residual_blocks.0.conv1"},
    Name{"control_adapter.residual_blocks.0.conv2", "control_adapter.residual_blocks.0.conv2"},
    // Of Wan-Animate.
    Name{"pose_patch_embedding", "pose_patch_embedding"},
    Name{"face_encoder.conv1_local.conv", "face_encoder.conv1_local"},
    Name{"face_encoder.conv2.conv", "face_encoder.conv2"},
    Name{"face_encoder.conv3.conv", "face_encoder.conv3"},
    Name{"face_encoder.out_proj", "face_encoder.out_proj"},
    Name{"face_encoder.padding_tokens", "face_encoder.padding_tokens"},
    Name{"motion_encoder.enc.net_app.convs.0.0", "motion_encoder.conv_in"},
    Name{"motion_encoder.enc.net_app.convs.0.1", "motion_encoder.conv_in.act_fn", Cut::CHANNELS},
    Name{"motion_encoder.enc.fc.{}", "motion_encoder.motion_network.{}"},
    Name{"motion_encoder.dec.direction.weight", "motion_encoder.motion_synthesis_weight"},
    Name{"head.head", "proj_out"},
    Name{"head.modulation", "scale_shift_table"},
};

// The original norm3, before cross-attention, is diffusers' norm2; a block's other two norms have
// no parameters. `modulation` is a parameter.
constexpr std::array kBlock{
    Name{"self_attn.q", "attn1.to_q"},
    Name{"self_attn.k", "attn1.to_k"},
    Name{"self_attn.v", "attn1.to_v"},
    Name{"self_attn.o", "attn1.to_out.0"},
    Name{"self_attn.norm_q", "attn1.norm_q"},
    Name{"self_attn.norm_k", "attn1.norm_k"},
    Name{"cross_attn.q", "attn2.to_q"},
    Name{"cross_attn.k", "attn2.to_k"},
    Name{"cross_attn.v", "attn2.to_v"},
    Name{"cross_attn.o", "attn2.to_out.0"},
    Name{"cross_attn.norm_q", "attn2.norm_q"},
    Name{"cross_attn.norm_k", "attn2.norm_k"},
    Name{"cross_attn.k_img", "attn2.add_k_proj"},
    Name{"cross_attn.v_img", "attn2.add_v_proj"},
    Name{"cross_attn.norm_q_img", "attn2.norm_added_q"},
    Name{"cross_attn.norm_k_img", "attn2.norm_added_k"},
    Name{"ffn.0", "ffn.net.0.proj"},
    Name{"ffn.2", "ffn.net.2"},
    Name{"norm3", "norm2"},
    Name{"modulation", "scale_shift_table"},
};

// VACE's control branch: a block's parts, and the projections of its hints.
constexpr std::array kControlBlock{
    Name{"before_proj", "proj_in"},
    Name{"after_proj", "proj_out"},
};

// Wan-Animate: keys and values are one projection.
constexpr std::array kFaceAdapter{
    Name{"linear1_q", "to_q"},
    Name{"linear1_kv", "to_k", Cut::HALF, 0},
    Name{"linear1_kv", "to_v", Cut::HALF, 1},
    Name{"linear2", "to_out"},
    Name{"q_norm", "norm_q"},
    Name{"k_norm", "norm_k"},
};

constexpr std::array kMotionBlock{
    Name{"conv1.0", "conv1"},    Name{"conv1.1", "conv1.act_fn", Cut::CHANNELS},
    Name{"conv2.1", "conv2"},    Name{"conv2.2", "conv2.act_fn", Cut::CHANNELS},
    Name{"skip.1", "conv_skip"},
};

constexpr std::array kItself{Name{"", ""}};

/// The original counts the motion encoder's first convolution, its blocks and its last convolution
/// in one list.
std::optional<Numbers> block_of(const Numbers& original, const Layout& /*layout*/) {
  return original[0] > 0 ? std::optional(Numbers{original[0] - 1}) : std::nullopt;
}
std::optional<Numbers> after_first(const Numbers& block, const Layout& /*layout*/) {
  return Numbers{block[0] + 1};
}
std::optional<Numbers> without_number(const Numbers& original, const Layout& /*layout*/) {
  return original[0] > 0 ? std::optional(Numbers{}) : std::nullopt;
}
std::optional<Numbers> after_blocks(const Numbers& /*none*/, const Layout& layout) {
  return Numbers{layout.motion_blocks + 1};
}
constexpr Numbering kMotionBlocks{.diffusers = block_of, .original = after_first};
constexpr Numbering kLastOfMotion{.diffusers = without_number, .original = after_blocks};

constexpr std::array kPlaces{
    Place{"face_adapter.fuser_blocks.{}.", "face_adapter.{}.", kFaceAdapter},
    Place{"motion_encoder.enc.net_app.convs.{}.", "motion_encoder.res_blocks.{}.", kMotionBlock,
          &kMotionBlocks},
    Place{"motion_encoder.enc.net_app.convs.{}", "motion_encoder.conv_out", kItself,
          &kLastOfMotion},
    Place{"vace_blocks.{}.", "vace_blocks.{}.", kBlock},
    Place{"vace_blocks.{}.", "vace_blocks.{}.", kControlBlock},
    Place{"blocks.{}.", "blocks.{}.", kBlock},
    Place{"", "", kOutside},
};

Layout layout(std::span<const std::string_view> names) {
  int64_t blocks = 0;
  for (const std::string_view name : names) {
    for (const std::string_view pattern :
         {"motion_encoder.enc.net_app.convs.{}.skip.", "motion_encoder.res_blocks.{}.conv_skip."}) {
      if (const auto at = match(pattern, name, Spelling::DOTS, true)) {
        const bool is_original = pattern.find("net_app") != std::string_view::npos;
        blocks = std::max(blocks, is_original ? (*at)[0] : (*at)[0] + 1);
      }
    }
  }
  Layout out;
  out.motion_blocks = blocks > 0 ? blocks : out.motion_blocks;
  return out;
}

}  // namespace

const NameTable kWanNames{.model = "Wan", .places = kPlaces, .layout = layout};

}  // namespace kinema::model_files
