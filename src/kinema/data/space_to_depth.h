#pragma once

#include <cstdint>

#include "kinema/core/host_array.h"

namespace kinema::data {

/// A lossless autoencoder without weights: pixel blocks become channels.
///
/// With regions, the picture is first divided into regions x regions parts (and the clip into
/// temporal_regions parts) that are stacked: a token holds one block of every part, so that it
/// spans distant positions and times.
struct SpaceToDepth {
  int64_t block = 6;     // pixels per side
  int64_t temporal = 1;  // frames per block
  int64_t regions = 1;
  int64_t temporal_regions = 1;
  /// latent = (pixel - shift) * scale, so that latents have mean 0 and variance 1.
  double shift = 0;
  double scale = 1;

  /// Pixels per side, and frames, of one token.
  int64_t side() const { return block * regions; }
  int64_t frames() const { return temporal * temporal_regions; }
  int64_t channels() const { return 3 * frames() * side() * side(); }
  /// Shape of the latents of f32 [3, f, h, w]; throws an Error if a size does not divide.
  Shape latent_shape(int64_t num_frames, int64_t height, int64_t width) const;
  /// f32 [3, f, h, w] -> f32 [channels, f / frames(), h / side(), w / side()]. Channel order is
  /// (colour, temporal region, frame in block, region row, row in block, region column, column in
  /// block).
  HostArray encode(const HostArray& pixels) const;
  /// The inverse.
  HostArray decode(const HostArray& latents) const;
};

}  // namespace kinema::data
