#include <array>

#include "kinema/model_files/names.h"

// Qwen3 in the names of llama.cpp, which GGUF files have, and in those of transformers.
namespace kinema::model_files {
namespace {

constexpr std::array kOutside{Name{"token_embd", "embed_tokens"}, Name{"output_norm", "norm"},
                              Name{"output", "lm_head"}};

constexpr std::array kBlock{
    Name{"attn_norm", "input_layernorm"},    Name{"attn_q", "self_attn.q_proj"},
    Name{"attn_k", "self_attn.k_proj"},      Name{"attn_v", "self_attn.v_proj"},
    Name{"attn_output", "self_attn.o_proj"}, Name{"attn_q_norm", "self_attn.q_norm"},
    Name{"attn_k_norm", "self_attn.k_norm"}, Name{"ffn_norm", "post_attention_layernorm"},
    Name{"ffn_gate", "mlp.gate_proj"},       Name{"ffn_up", "mlp.up_proj"},
    Name{"ffn_down", "mlp.down_proj"},
};

constexpr std::array kPlaces{
    Place{"", "", kOutside},
    Place{"blk.{}.", "layers.{}.", kBlock},
};

}  // namespace

const NameTable kQwen3Names{.model = "Qwen3", .places = kPlaces};

}  // namespace kinema::model_files
