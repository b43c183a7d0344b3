#include "models/wan/config.h"

#include <cmath>
#include <string_view>

#include "core/error.h"

namespace kinema::wan {
namespace {

void check_range(std::string_view key, int64_t value, int64_t low, int64_t high) {
  check(value >= low && value <= high, "[wan] `{}` is {} but must be from {} to {}", key, value,
        low, high);
}

}  // namespace

void validate(const TransformerConfig& c) {
  // The bounds leave an order of magnitude above the largest published model (14B) and keep every
  // product of sizes far inside int64.
  for (const int64_t size : c.patch_size) {
    check_range("patch_size", size, 1, 64);
  }
  check_range("num_attention_heads", c.num_attention_heads, 1, 1024);
  check_range("attention_head_dim", c.attention_head_dim, 1, 4096);
  check_range("in_channels", c.in_channels, 1, 65536);
  check_range("out_channels", c.out_channels, 1, 65536);
  check_range("text_dim", c.text_dim, 1, 1 << 20);
  check_range("freq_dim", c.freq_dim, 2, 1 << 20);
  check_range("ffn_dim", c.ffn_dim, 1, 1 << 22);
  check_range("num_layers", c.num_layers, 1, 1000);
  check_range("image_dim", c.image_dim, 0, 1 << 20);
  check_range("added_kv_proj_dim", c.added_kv_proj_dim, 0, 1 << 22);
  check_range("pos_embed_seq_len", c.pos_embed_seq_len, 0, 1 << 20);
  check_range("rope_max_seq_len", c.rope_max_seq_len, 1, 1 << 24);
  check(std::isfinite(c.eps) && c.eps > 0.0 && c.eps < 1.0,
        "[wan] `eps` is {} but must lie between 0 and 1", c.eps);
  check(c.attention_head_dim % 2 == 0,
        "[wan] `attention_head_dim` is {} but must be even: the rotary embedding turns pairs",
        c.attention_head_dim);
  check(c.freq_dim % 2 == 0, "[wan] `freq_dim` is {} but must be even: cosines and sines",
        c.freq_dim);
  check_range("num_attention_heads * attention_head_dim", c.dim(), 2, 1 << 17);
  check((c.image_dim > 0) == (c.added_kv_proj_dim > 0),
        "[wan] `image_dim` is {} and `added_kv_proj_dim` is {}: image conditioning needs both",
        c.image_dim, c.added_kv_proj_dim);
  check(c.added_kv_proj_dim == 0 || c.added_kv_proj_dim == c.dim(),
        "[wan] `added_kv_proj_dim` is {} but must be the model's width, {}", c.added_kv_proj_dim,
        c.dim());
  check(c.pos_embed_seq_len == 0 || c.image_dim > 0,
        "[wan] `pos_embed_seq_len` is {} but there is no `image_dim`", c.pos_embed_seq_len);
}

}  // namespace kinema::wan
