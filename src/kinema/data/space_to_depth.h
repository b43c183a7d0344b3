#pragma once

#include <cstdint>

#include "kinema/core/host_array.h"

namespace kinema::data {

/// An autoencoder without weights: pixel blocks become channels, losslessly.
///
/// With regions, the picture is first cut into regions x regions parts (and the clip into
/// temporal_regions stretches) that lie on top of each other: a token holds a block of every part,
/// so that it sees places, and moments, far from each other at once.
struct SpaceToDepth {
  int64_t block = 6;     // pixels a side
  int64_t temporal = 1;  // frames a block
  int64_t regions = 1;
  int64_t temporal_regions = 1;
  /// latent = (pixel - shift) * scale, so that latents have mean 0 and variance 1.
  double shift = 0;
  double scale = 1;

  /// Pixels of one side, and frames, that one token holds.
  int64_t side() const { return block * regions; }
  int64_t frames() const { return temporal * temporal_regions; }
  int64_t channels() const { return 3 * frames() * side() * side(); }
  /// Shape of the latents of f32 [3, f, h, w]; throws an Error when a size does not divide.
  Shape latent_shape(int64_t num_frames, int64_t height, int64_t width) const;
  /// f32 [3, f, h, w] -> f32 [channels, f / frames(), h / side(), w / side()]. Channel order is
  /// (colour, stretch, frame in block, region row, row in block, region column, column in block).
  HostArray encode(const HostArray& pixels) const;
  /// The inverse.
  HostArray decode(const HostArray& latents) const;
};

}  // namespace kinema::data
