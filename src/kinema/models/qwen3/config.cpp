#include "kinema/models/qwen3/config.h"

#include <cmath>

#include "kinema/core/error.h"
#include "kinema/models/config_check.h"

namespace kinema::qwen3 {
namespace {

constexpr ConfigCheck kCheck{"qwen3"};

}  // namespace

void validate(const EncoderConfig& c) {
  kCheck.range("vocab_size", c.vocab_size, 1, int64_t{1} << 24);
  kCheck.range("hidden_size", c.hidden_size, 1, 1 << 17);
  kCheck.range("intermediate_size", c.intermediate_size, 1, 1 << 20);
  kCheck.range("num_hidden_layers", c.num_hidden_layers, 2, 1000);
  kCheck.range("num_attention_heads", c.num_attention_heads, 1, 1024);
  kCheck.range("num_key_value_heads", c.num_key_value_heads, 1, c.num_attention_heads);
  kCheck.range("head_dim", c.head_dim, 2, 4096);
  kCheck.epsilon("rms_norm_eps", c.rms_norm_eps);
  check(c.head_dim % 2 == 0,
        "[qwen3] `head_dim` is {} but must be even: the rotary embedding turns pairs", c.head_dim);
  check(c.num_attention_heads % c.num_key_value_heads == 0,
        "[qwen3] `num_attention_heads` is {} but must be a multiple of `num_key_value_heads`, {}",
        c.num_attention_heads, c.num_key_value_heads);
  check(std::isfinite(c.rope_theta) && c.rope_theta >= 1.0 && c.rope_theta <= 1e12,
        "[qwen3] `rope_theta` is {} but must be from 1 to 1e12", c.rope_theta);
}

}  // namespace kinema::qwen3
