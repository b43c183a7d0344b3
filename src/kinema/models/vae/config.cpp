#include "kinema/models/vae/config.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/models/config_check.h"

namespace kinema::vae {
namespace {

constexpr ConfigCheck kCheck{"vae"};

void check_latents(std::string_view key, const std::vector<double>& values, int64_t z_dim) {
  check(static_cast<int64_t>(values.size()) == z_dim,
        "[vae] `{}` has {} values but z_dim is {}: one per channel is needed", key, values.size(),
        z_dim);
  for (const double value : values) {
    check(std::isfinite(value), "[vae] `{}` holds {}: finite numbers are needed", key, value);
  }
}

void check_levels(const Config& c) {
  kCheck.range("number of levels in dim_mult", c.levels(), 2, 8);
  for (const int64_t factor : c.dim_mult) {
    kCheck.range("dim_mult", factor, 1, 1024);
  }
  check(static_cast<int64_t>(c.temperal_downsample.size()) == c.levels() - 1,
        "[vae] `temperal_downsample` has {} values but `dim_mult` has {}: one less is needed",
        c.temperal_downsample.size(), c.levels());
  for (int64_t level = 0; level < c.levels(); ++level) {
    const bool last = level == c.levels() - 1;
    kCheck.range("base_dim * dim_mult", c.encoder_dim(level), 1, 1 << 16);
    kCheck.range("decoder_base_dim * dim_mult", c.decoder_dim(level), 1, 1 << 16);
    // Wan 2.1 halves the channels with every upsampling.
    check(c.is_residual || last || c.decoder_dim(level) % 2 == 0,
          "[vae] level {} of the decoder is {} wide, which its upsampling cannot halve", level,
          c.decoder_dim(level));
    if (c.is_residual) {
      const int64_t down = (last ? int64_t{1} : int64_t{4}) *
                           (!last && c.temperal_downsample[static_cast<size_t>(level)] ? 2 : 1);
      check(c.encoder_dim(level - 1) * down % c.encoder_dim(level) == 0,
            "[vae] {} channels averaged over blocks of {} do not make {} channels",
            c.encoder_dim(level - 1), down, c.encoder_dim(level));
      const int64_t up = int64_t{4} * (c.temporal_upsample(level) ? 2 : 1);
      check(last || c.decoder_dim(level) * up % c.decoder_dim(level - 1) == 0,
            "[vae] {} channels repeated over blocks of {} do not make {} channels",
            c.decoder_dim(level - 1), up, c.decoder_dim(level));
    }
  }
}

}  // namespace

int64_t Config::temporal() const {
  return int64_t{1} << std::ranges::count(temperal_downsample, true);
}

int64_t Config::encoder_dim(int64_t level) const {
  return base_dim * (level < 0 ? 1 : dim_mult[static_cast<size_t>(level)]);
}

int64_t Config::decoder_dim(int64_t level) const {
  const int64_t base = decoder_base_dim > 0 ? decoder_base_dim : base_dim;
  return base * dim_mult[static_cast<size_t>(levels() - 1 - std::max<int64_t>(level, 0))];
}

bool Config::temporal_upsample(int64_t level) const {
  return level < levels() - 1 && temperal_downsample[static_cast<size_t>(levels() - 2 - level)];
}

std::vector<double> default_latents_mean() {
  return {-0.7571, -0.7089, -0.9113, 0.1075,  -0.1745, 0.9653,  -0.1517, 1.5508,
          0.4134,  -0.0715, 0.5517,  -0.3632, -0.1922, -0.9497, 0.2503,  -0.2921};
}

std::vector<double> default_latents_std() {
  return {2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
          3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160};
}

void validate(const Config& c) {
  // An order of magnitude above the largest published VAE (Wan 2.2).
  kCheck.range("base_dim", c.base_dim, 1, 4096);
  kCheck.range("decoder_base_dim", c.decoder_base_dim, 0, 4096);
  kCheck.range("z_dim", c.z_dim, 1, 4096);
  kCheck.range("num_res_blocks", c.num_res_blocks, 1, 64);
  kCheck.range("in_channels", c.in_channels, 1, 4096);
  kCheck.range("out_channels", c.out_channels, 1, 4096);
  kCheck.range("patch_size", c.patch_size, 0, 64);
  check_levels(c);
  check(c.attn_scales.empty(),
        "[vae] `attn_scales` has {} values but must be empty: no Wan VAE has attention outside the "
        "middle block",
        c.attn_scales.size());
  check(std::isfinite(c.dropout) && c.dropout >= 0.0 && c.dropout < 1.0,
        "[vae] `dropout` is {} but must be at least 0 and below 1", c.dropout);
  check_latents("latents_mean", c.latents_mean, c.z_dim);
  check_latents("latents_std", c.latents_std, c.z_dim);
  check(std::ranges::all_of(c.latents_std, [](double v) { return v > 0.0; }),
        "[vae] `latents_std` must be positive");
  const int64_t pixels = c.patch() * c.patch();
  check(c.in_channels == c.out_channels && c.in_channels % pixels == 0,
        "[vae] `in_channels` {} and `out_channels` {} must be equal and divide into {} pixels of a "
        "patch",
        c.in_channels, c.out_channels, pixels);
}

}  // namespace kinema::vae
