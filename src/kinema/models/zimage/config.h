#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace kinema::zimage {

/// The sizes of a ControlNet in addition to those of its transformer, under the names of its
/// `config.json`.
struct ControlConfig {
  int64_t control_in_dim = 16;  // channels of the control latents
  /// The main layers behind which the hints of the control layers are added, rising from 0.
  std::vector<int64_t> control_layers_places;
  /// The same for layers of the noise refiner (version 2); none: plain blocks refine the control
  /// tokens (version 1).
  std::vector<int64_t> control_refiner_layers_places;
  /// Blocks of the control refiner; 0: the control layers run in its place (version 2.0).
  int64_t n_refiner_layers = 2;

  bool has_refiner_hints() const { return !control_refiner_layers_places.empty(); }
  bool has_own_refiner() const { return n_refiner_layers > 0; }
  /// Channels of version 2: latents of a control image, a mask of the kept part of a picture, and
  /// its latents.
  static constexpr int64_t with_kept(int64_t latents) { return 2 * latents + 1; }
  bool operator==(const ControlConfig&) const = default;
};

/// The sizes of a Z-Image transformer, under the names of diffusers' `config.json`; the defaults
/// are those of Z-Image and Z-Image-Turbo.
struct TransformerConfig {
  int64_t in_channels = 16;  // of latents
  int64_t dim = 3840;
  int64_t n_layers = 30;         // blocks of image and text together
  int64_t n_refiner_layers = 2;  // blocks of either alone, before these
  int64_t n_heads = 30;
  double norm_eps = 1e-5;
  int64_t cap_feat_dim = 2560;  // of the text encoder's states
  double rope_theta = 256.0;
  double t_scale = 1000.0;
  std::array<int64_t, 3> axes_dims{32, 48, 48};      // channels of a head per axis
  std::array<int64_t, 3> axes_lens{1536, 512, 512};  // positions per axis

  /// Of a ControlNet whose hints are added; none in the transformer's own files.
  std::optional<ControlConfig> control = {};

  /// Latents per side of a token.
  static constexpr int64_t kPatch = 2;
  /// Numbers of image and of text tokens are filled up to multiples of this.
  static constexpr int64_t kFill = 32;

  int64_t head_dim() const { return dim / n_heads; }
  int64_t mlp_dim() const { return static_cast<int64_t>(static_cast<double>(dim) / 3 * 8); }
  /// Of the vector that modulates the blocks.
  int64_t modulation_dim() const { return std::min<int64_t>(dim, 256); }
  int64_t token_dim() const { return in_channels * kPatch * kPatch; }
  bool operator==(const TransformerConfig&) const = default;
};

/// Throws an Error with the key if a size is out of range or the sizes do not fit together.
void validate(const TransformerConfig& config);

}  // namespace kinema::zimage
