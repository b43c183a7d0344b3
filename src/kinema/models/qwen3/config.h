#pragma once

#include <cstdint>

namespace kinema::qwen3 {

/// The sizes of a Qwen3 language model, under the names of transformers' `config.json`; the
/// defaults are those of Qwen3-4B, the text encoder of Z-Image.
struct EncoderConfig {
  int64_t vocab_size = 151936;
  int64_t hidden_size = 2560;
  int64_t intermediate_size = 9728;
  int64_t num_hidden_layers = 36;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 8;  // each serves as many neighbouring heads of queries
  int64_t head_dim = 128;           // num_attention_heads * head_dim may differ from hidden_size
  double rms_norm_eps = 1e-6;
  double rope_theta = 1e6;

  bool operator==(const EncoderConfig&) const = default;
};

/// Throws an Error with the key if a size is out of range or the sizes do not fit together.
void validate(const EncoderConfig& config);

}  // namespace kinema::qwen3
