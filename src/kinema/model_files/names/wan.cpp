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

constexpr std::array kPlaces{
    Place{"vace_blocks.{}.", "vace_blocks.{}.", kBlock},
    Place{"vace_blocks.{}.", "vace_blocks.{}.", kControlBlock},
    Place{"blocks.{}.", "blocks.{}.", kBlock},
    Place{"", "", kOutside},
};

}  // namespace

const NameTable kWanNames{.model = "Wan", .places = kPlaces};

}  // namespace kinema::model_files
