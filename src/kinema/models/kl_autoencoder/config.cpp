#include "kinema/models/kl_autoencoder/config.h"

#include <cmath>

#include "kinema/core/error.h"
#include "kinema/models/config_check.h"

namespace kinema::kl_autoencoder {
namespace {

constexpr ConfigCheck kCheck{"kl_autoencoder"};

}  // namespace

void validate(const AutoencoderConfig& c) {
  kCheck.range("number of block_out_channels", c.levels(), 1, 8);
  kCheck.range("layers_per_block", c.layers_per_block, 1, 100);
  kCheck.range("latent_channels", c.latent_channels, 1, 4096);
  kCheck.range("norm_num_groups", c.norm_num_groups, 1, 1 << 12);
  for (const int64_t channels : c.block_out_channels) {
    kCheck.range("block_out_channels", channels, 1, 1 << 16);
    check(channels % c.norm_num_groups == 0,
          "[kl_autoencoder] `block_out_channels` has {} but must have multiples of "
          "`norm_num_groups`, {}",
          channels, c.norm_num_groups);
  }
  check(std::isfinite(c.scaling_factor) && c.scaling_factor > 0.0,
        "[kl_autoencoder] `scaling_factor` is {} but must be above 0", c.scaling_factor);
  check(std::isfinite(c.shift_factor), "[kl_autoencoder] `shift_factor` is {}", c.shift_factor);
  const auto channels = static_cast<size_t>(c.latent_channels);
  check(c.latents_mean.size() == c.latents_std.size() &&
            (c.latents_mean.empty() || c.latents_mean.size() == channels),
        "[kl_autoencoder] `latents_mean` has {} values and `latents_std` {} but both must have "
        "{}, one per channel, or none",
        c.latents_mean.size(), c.latents_std.size(), channels);
  for (const double deviation : c.latents_std) {
    check(std::isfinite(deviation) && deviation > 0.0,
          "[kl_autoencoder] `latents_std` has {} but its values must be above 0", deviation);
  }
}

}  // namespace kinema::kl_autoencoder
