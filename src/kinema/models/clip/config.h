#pragma once

#include <cstdint>

namespace kinema::clip {

enum class Activation : uint8_t { GELU, QUICK_GELU, GELU_TANH };

/// The sizes of a CLIP vision model, under the names of transformers' `config.json`.
struct VisionConfig {
  int64_t hidden_size = 1280;
  int64_t intermediate_size = 5120;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 16;
  int64_t num_channels = 3;
  int64_t image_size = 224;  // pixels a side
  int64_t patch_size = 14;   // pixels a side
  Activation hidden_act = Activation::GELU;
  double layer_norm_eps = 1e-5;

  int64_t patches() const { return (image_size / patch_size) * (image_size / patch_size); }
  /// Patches and the class token in front of them.
  int64_t tokens() const { return patches() + 1; }
  bool operator==(const VisionConfig&) const = default;
};

/// Throws an Error naming the key when a size is out of range or the sizes do not fit together.
void validate(const VisionConfig& config);

}  // namespace kinema::clip
