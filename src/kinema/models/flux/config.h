#pragma once

#include <array>
#include <cstdint>

namespace kinema::flux {

/// The sizes of a Flux.1 transformer, under the names of diffusers' `config.json`; the defaults are
/// FLUX.1-dev's.
struct TransformerConfig {
  int64_t in_channels = 64;        // of a token: latent channels times 2 x 2 latents
  int64_t out_channels = 64;       // the same; fewer where other channels follow the latents (Fill)
  int64_t num_layers = 19;         // double-stream blocks
  int64_t num_single_layers = 38;  // single-stream blocks
  int64_t num_attention_heads = 24;
  int64_t attention_head_dim = 128;
  int64_t joint_attention_dim = 4096;   // of T5's text states
  int64_t pooled_projection_dim = 768;  // of CLIP's pooled vector
  bool guidance_embeds = true;          // false: FLUX.1-schnell
  std::array<int64_t, 3> axes_dims_rope{16, 56, 56};

  /// Latents per side of a token.
  static constexpr int64_t kPatch = 2;

  int64_t dim() const { return num_attention_heads * attention_head_dim; }
  int64_t mlp_dim() const { return 4 * dim(); }
  int64_t latent_channels() const { return in_channels / (kPatch * kPatch); }
  bool operator==(const TransformerConfig&) const = default;
};

/// Throws an Error with the key if a size is out of range or the sizes do not fit together.
void validate(const TransformerConfig& config);

}  // namespace kinema::flux
