#pragma once

#include <cstdint>
#include <vector>

namespace kinema::kl_autoencoder {

/// The sizes of a KL autoencoder for images, under the names of diffusers' `config.json`; the
/// defaults are those of Stable Diffusion XL.
struct AutoencoderConfig {
  std::vector<int64_t> block_out_channels{128, 256, 512, 512};  // of each level, outermost first
  int64_t layers_per_block = 2;  // resnets of an encoder level; a decoder level has one more
  int64_t latent_channels = 4;
  int64_t norm_num_groups = 32;
  bool use_quant_conv = true;
  bool use_post_quant_conv = true;
  /// Latents of the diffusion model: (z - shift_factor) scaling_factor.
  double scaling_factor = 0.13025;
  double shift_factor = 0.0;
  /// If not empty, one per latent channel: (z - mean) / std * scaling_factor.
  std::vector<double> latents_mean = {};
  std::vector<double> latents_std = {};

  int64_t levels() const { return static_cast<int64_t>(block_out_channels.size()); }
  /// Pixels per side of one latent.
  int64_t spatial() const { return int64_t{1} << (levels() - 1); }
  bool operator==(const AutoencoderConfig&) const = default;
};

/// Throws an Error with the key if a size is out of range or the sizes do not fit together.
void validate(const AutoencoderConfig& config);

}  // namespace kinema::kl_autoencoder
