#include <array>

#include "kinema/model_files/names.h"

// CLIP's text model. Keys may have the prefix `text_model.` or, in newer transformers versions,
// none: here modules have it, except the projection, which never does.
namespace kinema::model_files {
namespace {

constexpr Name same(std::string_view name) { return {name, name}; }

constexpr std::array kProjection{same("text_projection")};

constexpr std::array kOutside{
    same("embeddings.token_embedding"),
    same("embeddings.position_embedding"),
    same("final_layer_norm"),
};

constexpr std::array kLayer{
    same("self_attn.q_proj"),
    same("self_attn.k_proj"),
    same("self_attn.v_proj"),
    same("self_attn.out_proj"),
    same("layer_norm1"),
    same("layer_norm2"),
    same("mlp.fc1"),
    same("mlp.fc2"),
    // Adapters of diffusers from before PEFT.
    Name{"self_attn.to_q", "self_attn.q_proj"},
    Name{"self_attn.to_k", "self_attn.k_proj"},
    Name{"self_attn.to_v", "self_attn.v_proj"},
    Name{"self_attn.to_out", "self_attn.out_proj"},
};

constexpr std::array kPlaces{
    Place{"", "", kProjection},
    Place{"text_model.", "text_model.", kOutside},
    Place{"text_model.encoder.layers.{}.", "text_model.encoder.layers.{}.", kLayer},
    Place{"", "text_model.", kOutside},
    Place{"encoder.layers.{}.", "text_model.encoder.layers.{}.", kLayer},
};

constexpr std::array kOpenOutside{
    Name{"token_embedding", "text_model.embeddings.token_embedding"},
    Name{.original = "positional_embedding",
         .diffusers = "text_model.embeddings.position_embedding",
         .weight = ""},
    Name{"ln_final", "text_model.final_layer_norm"},
    Name{.original = "text_projection",
         .diffusers = "text_projection",
         .cut = Cut::TRANSPOSED,
         .weight = ""},
};

constexpr std::array kOpenLayer{
    Name{"ln_1", "layer_norm1"},
    Name{.original = "attn.in_proj",
         .diffusers = "self_attn.q_proj",
         .cut = Cut::THIRD,
         .part = 0,
         .weight = "_weight",
         .bias = "_bias"},
    Name{.original = "attn.in_proj",
         .diffusers = "self_attn.k_proj",
         .cut = Cut::THIRD,
         .part = 1,
         .weight = "_weight",
         .bias = "_bias"},
    Name{.original = "attn.in_proj",
         .diffusers = "self_attn.v_proj",
         .cut = Cut::THIRD,
         .part = 2,
         .weight = "_weight",
         .bias = "_bias"},
    Name{"attn.out_proj", "self_attn.out_proj"},
    Name{"ln_2", "layer_norm2"},
    Name{"mlp.c_fc", "mlp.fc1"},
    Name{"mlp.c_proj", "mlp.fc2"},
};

constexpr std::array kOpenPlaces{
    Place{"", "", kOpenOutside},
    Place{"transformer.resblocks.{}.", "text_model.encoder.layers.{}.", kOpenLayer},
};

}  // namespace

const NameTable kClipNames{.model = "CLIP", .places = kPlaces};
const NameTable kOpenClipNames{.model = "OpenCLIP", .places = kOpenPlaces};

}  // namespace kinema::model_files
