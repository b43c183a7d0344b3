#pragma once

#include <cstdint>

namespace kinema::t5 {

/// The sizes of a T5 v1.1 or UMT5 encoder, under the names of transformers' `config.json`; the
/// defaults are those of umt5-xxl, which Wan uses.
struct EncoderConfig {
  int64_t vocab_size = 256384;
  int64_t d_model = 4096;
  int64_t d_kv = 64;  // of one head; num_heads * d_kv may differ from d_model
  int64_t d_ff = 10240;
  int64_t num_layers = 24;
  int64_t num_heads = 64;
  int64_t relative_attention_num_buckets = 32;
  int64_t relative_attention_max_distance = 128;
  double layer_norm_epsilon = 1e-6;
  /// T5: all blocks share the table of block 0. UMT5: each block has its own.
  bool shared_relative_bias = false;

  int64_t inner_dim() const { return num_heads * d_kv; }
  bool operator==(const EncoderConfig&) const = default;
};

/// Throws an Error with the key if a size is out of range.
void validate(const EncoderConfig& config);

}  // namespace kinema::t5
