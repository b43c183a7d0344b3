#pragma once

#include <cstdint>

namespace kinema::clip {

enum class Activation : uint8_t { GELU, QUICK_GELU, GELU_TANH };

/// The sizes of a transformer layer of the text or the vision model.
struct LayerConfig {
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_attention_heads = 0;
  Activation hidden_act = Activation::GELU;
  double layer_norm_eps = 1e-5;
};

/// The sizes of a CLIP vision model, under the names of transformers' `config.json`.
struct VisionConfig {
  int64_t hidden_size = 1280;
  int64_t intermediate_size = 5120;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 16;
  int64_t num_channels = 3;
  int64_t image_size = 224;  // per side
  int64_t patch_size = 14;   // per side
  Activation hidden_act = Activation::GELU;
  double layer_norm_eps = 1e-5;

  int64_t patches() const { return (image_size / patch_size) * (image_size / patch_size); }
  /// Patches, plus the class token before them.
  int64_t tokens() const { return patches() + 1; }
  LayerConfig layer() const {
    return {hidden_size, intermediate_size, num_attention_heads, hidden_act, layer_norm_eps};
  }
  bool operator==(const VisionConfig&) const = default;
};

/// The sizes of a CLIP text model, under the names of transformers' `config.json`; the defaults are
/// those of ViT-L/14, the first text encoder of Flux.1 and Stable Diffusion XL.
struct TextConfig {
  int64_t vocab_size = 49408;
  int64_t hidden_size = 768;
  int64_t intermediate_size = 3072;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t max_position_embeddings = 77;
  Activation hidden_act = Activation::QUICK_GELU;
  double layer_norm_eps = 1e-5;
  /// Selects the pooled row: see `TextOutputs`.
  int64_t eos_token_id = 2;
  /// Width of `text_embeds`; 0: the model has no projection.
  int64_t projection_dim = 0;

  LayerConfig layer() const {
    return {hidden_size, intermediate_size, num_attention_heads, hidden_act, layer_norm_eps};
  }
  bool operator==(const TextConfig&) const = default;
};

/// Throws an Error with the key if a size is out of range or the sizes do not fit together.
void validate(const VisionConfig& config);
void validate(const TextConfig& config);

}  // namespace kinema::clip
