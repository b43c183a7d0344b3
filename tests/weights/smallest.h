#pragma once

#include "kinema/models/wan/config.h"

namespace kinema::weights {

/// A transformer with one head of 128, whose sizes follow from its names, with every requested kind
/// of parameter.
inline wan::TransformerConfig smallest_config(bool image, bool position) {
  wan::TransformerConfig config;
  config.num_attention_heads = 1;
  config.in_channels = 6;
  config.out_channels = 3;
  config.text_dim = 5;
  config.freq_dim = 4;
  config.ffn_dim = 7;
  config.num_layers = 2;
  config.image_dim = image ? 9 : 0;
  config.added_kv_proj_dim = image ? 128 : 0;
  config.pos_embed_seq_len = position ? 10 : 0;
  return config;
}

}  // namespace kinema::weights
