#pragma once

#include <cstdint>

#include "core/host_array.h"

namespace kinema::data {

/// An autoencoder without weights: pixel blocks become channels, losslessly.
struct SpaceToDepth {
  int64_t block = 6;     // pixels a side
  int64_t temporal = 1;  // frames a block
  /// latent = (pixel - shift) * scale, so that latents have mean 0 and variance 1.
  double shift = 0;
  double scale = 1;

  int64_t channels() const { return 3 * temporal * block * block; }
  /// Shape of the latents of f32 [3, f, h, w]; throws an Error when a size does not divide.
  Shape latent_shape(int64_t frames, int64_t height, int64_t width) const;
  /// f32 [3, f, h, w] -> f32 [channels, f / temporal, h / block, w / block]. Channel order is
  /// (colour, frame in block, row in block, column in block).
  HostArray encode(const HostArray& pixels) const;
  /// The inverse.
  HostArray decode(const HostArray& latents) const;
};

}  // namespace kinema::data
