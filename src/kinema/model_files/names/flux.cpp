#include <array>

#include "kinema/model_files/names.h"

namespace kinema::model_files {
namespace {

constexpr std::array kOutside{
    Name{"img_in", "x_embedder"},
    Name{"txt_in", "context_embedder"},
    Name{"time_in.in_layer", "time_text_embed.timestep_embedder.linear_1"},
    Name{"time_in.out_layer", "time_text_embed.timestep_embedder.linear_2"},
    Name{"guidance_in.in_layer", "time_text_embed.guidance_embedder.linear_1"},
    Name{"guidance_in.out_layer", "time_text_embed.guidance_embedder.linear_2"},
    Name{"vector_in.in_layer", "time_text_embed.text_embedder.linear_1"},
    Name{"vector_in.out_layer", "time_text_embed.text_embedder.linear_2"},
    Name{"final_layer.linear", "proj_out"},
    // The original has the shift first, diffusers the scale.
    Name{"final_layer.adaLN_modulation.1", "norm_out.linear", Cut::SWAPPED},
};

constexpr std::array kDouble{
    Name{"img_mod.lin", "norm1.linear"},
    Name{"txt_mod.lin", "norm1_context.linear"},
    Name{"img_attn.qkv", "attn.to_q", Cut::THIRD, 0},
    Name{"img_attn.qkv", "attn.to_k", Cut::THIRD, 1},
    Name{"img_attn.qkv", "attn.to_v", Cut::THIRD, 2},
    Name{"txt_attn.qkv", "attn.add_q_proj", Cut::THIRD, 0},
    Name{"txt_attn.qkv", "attn.add_k_proj", Cut::THIRD, 1},
    Name{"txt_attn.qkv", "attn.add_v_proj", Cut::THIRD, 2},
    Name{.original = "img_attn.norm.query_norm", .diffusers = "attn.norm_q", .weight = ".scale"},
    Name{.original = "img_attn.norm.key_norm", .diffusers = "attn.norm_k", .weight = ".scale"},
    Name{.original = "txt_attn.norm.query_norm",
         .diffusers = "attn.norm_added_q",
         .weight = ".scale"},
    Name{
        .original = "txt_attn.norm.key_norm", .diffusers = "attn.norm_added_k", .weight = ".scale"},
    Name{"img_attn.proj", "attn.to_out.0"},
    Name{"txt_attn.proj", "attn.to_add_out"},
    Name{"img_mlp.0", "ff.net.0.proj"},
    Name{"img_mlp.2", "ff.net.2"},
    Name{"txt_mlp.0", "ff_context.net.0.proj"},
    Name{"txt_mlp.2", "ff_context.net.2"},
};

constexpr std::array kSingle{
    Name{"modulation.lin", "norm.linear"},
    Name{"linear1", "attn.to_q", Cut::SQUARE, 0},
    Name{"linear1", "attn.to_k", Cut::SQUARE, 1},
    Name{"linear1", "attn.to_v", Cut::SQUARE, 2},
    Name{"linear1", "proj_mlp", Cut::REST, 3},
    Name{"linear2", "proj_out"},
    Name{.original = "norm.query_norm", .diffusers = "attn.norm_q", .weight = ".scale"},
    Name{.original = "norm.key_norm", .diffusers = "attn.norm_k", .weight = ".scale"},
};

// XLabs' adapters: 1 is the image's stream, 2 the text's. They are last, because they are only
// read.
constexpr std::array kDoubleXlabs{
    Name{"qkv_lora1", "attn.to_q", Cut::THIRD, 0},
    Name{"qkv_lora1", "attn.to_k", Cut::THIRD, 1},
    Name{"qkv_lora1", "attn.to_v", Cut::THIRD, 2},
    Name{"qkv_lora2", "attn.add_q_proj", Cut::THIRD, 0},
    Name{"qkv_lora2", "attn.add_k_proj", Cut::THIRD, 1},
    Name{"qkv_lora2", "attn.add_v_proj", Cut::THIRD, 2},
    Name{"proj_lora1", "attn.to_out.0"},
    Name{"proj_lora2", "attn.to_add_out"},
};

constexpr std::array kSingleXlabs{
    Name{"qkv_lora", "attn.to_q", Cut::THIRD, 0},
    Name{"qkv_lora", "attn.to_k", Cut::THIRD, 1},
    Name{"qkv_lora", "attn.to_v", Cut::THIRD, 2},
    Name{"proj_lora", "proj_out"},
};

constexpr std::array kPlaces{
    Place{"double_blocks.{}.", "transformer_blocks.{}.", kDouble},
    Place{"single_blocks.{}.", "single_transformer_blocks.{}.", kSingle},
    Place{"", "", kOutside},
    Place{"double_blocks.{}.processor.", "transformer_blocks.{}.", kDoubleXlabs},
    Place{"single_blocks.{}.processor.", "single_transformer_blocks.{}.", kSingleXlabs},
};

}  // namespace

const NameTable kFluxNames{.model = "Flux", .places = kPlaces};

}  // namespace kinema::model_files
