#pragma once

#include <cstdint>

namespace kinema::t5 {

/// The sizes of an encoder of T5 v1.1 or UMT5, under the names of transformers' `config.json`; the
/// defaults are umt5-xxl's, which Wan uses.
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
  /// T5: the table of block 0 is every block's. UMT5 has one a block.
  bool shared_relative_bias = false;

  int64_t inner_dim() const { return num_heads * d_kv; }
  bool operator==(const EncoderConfig&) const = default;
};

/// Throws an Error naming the key when a size is out of range.
void validate(const EncoderConfig& config);

}  // namespace kinema::t5
