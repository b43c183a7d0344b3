#include "kinema/models/clip/config.h"

#include "kinema/core/error.h"
#include "kinema/models/config_check.h"

namespace kinema::clip {
namespace {

constexpr ConfigCheck kCheck{"clip"};

// The bounds are an order of magnitude above the largest published model, and far inside int64.

void check_layers(const LayerConfig& c, int64_t layers) {
  kCheck.range("hidden_size", c.hidden_size, 1, 1 << 17);
  kCheck.range("intermediate_size", c.intermediate_size, 1, 1 << 20);
  kCheck.range("num_hidden_layers", layers, 1, 1000);
  kCheck.range("num_attention_heads", c.num_attention_heads, 1, 1024);
  check(c.hidden_size % c.num_attention_heads == 0,
        "[clip] `hidden_size` is {} but must be a multiple of `num_attention_heads`, {}",
        c.hidden_size, c.num_attention_heads);
  kCheck.epsilon("layer_norm_eps", c.layer_norm_eps);
}

}  // namespace

void validate(const VisionConfig& c) {
  check_layers(c.layer(), c.num_hidden_layers);
  check(c.num_channels == 3, "[clip] `num_channels` is {} but images have 3", c.num_channels);
  kCheck.range("image_size", c.image_size, 1, 1 << 14);
  kCheck.range("patch_size", c.patch_size, 1, c.image_size);
}

void validate(const TextConfig& c) {
  check_layers(c.layer(), c.num_hidden_layers);
  kCheck.range("vocab_size", c.vocab_size, 1, 1 << 24);
  kCheck.range("max_position_embeddings", c.max_position_embeddings, 2, 1 << 16);
  kCheck.range("eos_token_id", c.eos_token_id, 0, 1 << 24);
  kCheck.range("projection_dim", c.projection_dim, 0, 1 << 17);
}

}  // namespace kinema::clip
