#pragma once

#include <cstdint>
#include <vector>

namespace kinema::vae {

/// The sizes of a Wan VAE, under the names of diffusers' `config.json` (AutoencoderKLWan). The
/// defaults are diffusers' too: those of Wan 2.1.
struct Config {
  int64_t base_dim = 96;
  int64_t decoder_base_dim = 0;  // 0 = base_dim (null in the file)
  int64_t z_dim = 16;
  std::vector<int64_t> dim_mult{1, 2, 4, 4};
  int64_t num_res_blocks = 2;
  std::vector<double> attn_scales{};  // always empty, see validate
  std::vector<bool> temperal_downsample{false, true, true};
  double dropout = 0.0;                // for training the VAE; not used
  std::vector<double> latents_mean{};  // z_dim values
  std::vector<double> latents_std{};
  /// Wan 2.2: levels with shortcuts around their resampling, under other checkpoint keys.
  bool is_residual = false;
  int64_t in_channels = 3;
  int64_t out_channels = 3;
  int64_t patch_size = 0;  // 0 = none: pixels are not joined into patches before the encoder

  /// Levels of resolution, including the first and the last.
  int64_t levels() const { return static_cast<int64_t>(dim_mult.size()); }
  int64_t patch() const { return patch_size > 0 ? patch_size : 1; }
  /// Channels of a pixel: in_channels without the patch.
  int64_t colours() const { return in_channels / (patch() * patch()); }
  /// Pixels per side of one latent cell (`scale_factor_spatial`).
  int64_t spatial() const { return patch() << (levels() - 1); }
  /// Frames per latent frame, except the first (`scale_factor_temporal`).
  int64_t temporal() const;
  /// Channels of an encoder level; level -1 is the output of conv_in.
  int64_t encoder_dim(int64_t level) const;
  /// Channels of a decoder level, level 0 at the latents; level -1 is the output of conv_in.
  int64_t decoder_dim(int64_t level) const;
  /// True if the resampling after this decoder level also doubles the frames.
  bool temporal_upsample(int64_t level) const;

  bool operator==(const Config&) const = default;
};

/// latents_mean and latents_std of the published Wan 2.1 VAE, diffusers' defaults.
std::vector<double> default_latents_mean();
std::vector<double> default_latents_std();

/// Throws an Error with the key if a size is out of range or the sizes do not fit together.
void validate(const Config& config);

}  // namespace kinema::vae
