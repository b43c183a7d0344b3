#include <array>

#include "kinema/model_files/names.h"

namespace kinema::model_files {
namespace {

// The pad tokens are parameters, not modules.
constexpr std::array kOutside{
    Name{"x_embedder", "all_x_embedder.2-1"},
    Name{"x_pad_token", "x_pad_token"},
    Name{"cap_pad_token", "cap_pad_token"},
    Name{"t_embedder.mlp.0", "t_embedder.mlp.0"},
    Name{"t_embedder.mlp.2", "t_embedder.mlp.2"},
    Name{"cap_embedder.0", "cap_embedder.0"},
    Name{"cap_embedder.1", "cap_embedder.1"},
    Name{"final_layer.adaLN_modulation.1", "all_final_layer.2-1.adaLN_modulation.1"},
    Name{"final_layer.linear", "all_final_layer.2-1.linear"},
};

// Lumina 2's module tree.
constexpr std::array kBlock{
    Name{"attention.qkv", "attention.to_q", Cut::THIRD, 0},
    Name{"attention.qkv", "attention.to_k", Cut::THIRD, 1},
    Name{"attention.qkv", "attention.to_v", Cut::THIRD, 2},
    Name{"attention.out", "attention.to_out.0"},
    Name{"attention.q_norm", "attention.norm_q"},
    Name{"attention.k_norm", "attention.norm_k"},
    Name{"attention_norm1", "attention_norm1"},
    Name{"attention_norm2", "attention_norm2"},
    Name{"ffn_norm1", "ffn_norm1"},
    Name{"ffn_norm2", "ffn_norm2"},
    Name{"feed_forward.w1", "feed_forward.w1"},
    Name{"feed_forward.w2", "feed_forward.w2"},
    Name{"feed_forward.w3", "feed_forward.w3"},
    Name{"adaLN_modulation.0", "adaLN_modulation.0"},
};

constexpr std::array kPlaces{
    Place{"layers.{}.", "layers.{}.", kBlock},
    Place{"noise_refiner.{}.", "noise_refiner.{}.", kBlock},
    Place{"context_refiner.{}.", "context_refiner.{}.", kBlock},
    Place{"", "", kOutside},
};

}  // namespace

const NameTable kZImageNames{.model = "Z-Image", .places = kPlaces};

}  // namespace kinema::model_files
