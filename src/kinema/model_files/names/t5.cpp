#include <array>

#include "kinema/model_files/names.h"

// T5's encoder in transformers' names, and in those of files.
namespace kinema::model_files {
namespace {

constexpr Name same(std::string_view name) { return {name, name}; }

constexpr std::array kOutside{same("shared"), same("encoder.final_layer_norm")};

constexpr std::array kAttention{
    same("SelfAttention.q"), same("SelfAttention.k"), same("SelfAttention.v"),
    same("SelfAttention.o"), same("layer_norm"),
};

constexpr std::array kFeedForward{
    same("DenseReluDense.wi_0"),
    same("DenseReluDense.wi_1"),
    same("DenseReluDense.wo"),
    same("layer_norm"),
};

constexpr std::array kPlaces{
    Place{"", "", kOutside},
    Place{"encoder.block.{}.layer.0.", "encoder.block.{}.layer.0.", kAttention},
    Place{"encoder.block.{}.layer.1.", "encoder.block.{}.layer.1.", kFeedForward},
};

// Names in Wan's release (models_t5_umt5-xxl-enc-bf16.pth).
constexpr std::array kReleased{Name{"token_embedding", "shared"},
                               Name{"norm", "encoder.final_layer_norm"}};
constexpr std::array kReleasedBlock{
    Name{"norm1", "0.layer_norm"},
    Name{"attn.q", "0.SelfAttention.q"},
    Name{"attn.k", "0.SelfAttention.k"},
    Name{"attn.v", "0.SelfAttention.v"},
    Name{"attn.o", "0.SelfAttention.o"},
    Name{"pos_embedding.embedding", "0.SelfAttention.relative_attention_bias"},
    Name{"norm2", "1.layer_norm"},
    Name{"ffn.gate.0", "1.DenseReluDense.wi_0"},
    Name{"ffn.fc1", "1.DenseReluDense.wi_1"},
    Name{"ffn.fc2", "1.DenseReluDense.wo"},
};

// Names in GGUF files, those of llama.cpp.
constexpr std::array kGguf{Name{"token_embd", "shared"},
                           Name{"enc.output_norm", "encoder.final_layer_norm"}};
constexpr std::array kGgufBlock{
    Name{"attn_norm", "0.layer_norm"},
    Name{"attn_q", "0.SelfAttention.q"},
    Name{"attn_k", "0.SelfAttention.k"},
    Name{"attn_v", "0.SelfAttention.v"},
    Name{"attn_o", "0.SelfAttention.o"},
    Name{"attn_rel_b", "0.SelfAttention.relative_attention_bias"},
    Name{"ffn_norm", "1.layer_norm"},
    Name{"ffn_gate", "1.DenseReluDense.wi_0"},
    Name{"ffn_up", "1.DenseReluDense.wi_1"},
    Name{"ffn_down", "1.DenseReluDense.wo"},
};

constexpr std::array kFilePlaces{
    Place{"", "", kOutside},
    Place{"encoder.block.{}.layer.0.", "encoder.block.{}.layer.0.", kAttention},
    Place{"encoder.block.{}.layer.1.", "encoder.block.{}.layer.1.", kFeedForward},
    Place{"", "", kReleased},
    Place{"blocks.{}.", "encoder.block.{}.layer.", kReleasedBlock},
    Place{"", "", kGguf},
    Place{"enc.blk.{}.", "encoder.block.{}.layer.", kGgufBlock},
};

}  // namespace

const NameTable kT5Names{.model = "T5", .places = kPlaces};
const NameTable kT5FileNames{.model = "T5", .places = kFilePlaces, .mixed = true};

}  // namespace kinema::model_files
