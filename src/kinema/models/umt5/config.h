#pragma once

#include <cstdint>

namespace kinema::umt5 {

/// The sizes of a UMT5 encoder, under the names of transformers' `config.json`; the defaults are
/// umt5-xxl's, which Wan uses.
struct EncoderConfig {
  int64_t vocab_size = 256384;
  int64_t d_model = 4096;
  int64_t d_kv = 64;  // of one head; num_heads * d_kv need not be d_model
  int64_t d_ff = 10240;
  int64_t num_layers = 24;
  int64_t num_heads = 64;
  int64_t relative_attention_num_buckets = 32;
  int64_t relative_attention_max_distance = 128;
  double layer_norm_epsilon = 1e-6;

  int64_t inner_dim() const { return num_heads * d_kv; }
  bool operator==(const EncoderConfig&) const = default;
};

/// Throws an Error naming the key when a size is out of range.
void validate(const EncoderConfig& config);

}  // namespace kinema::umt5
