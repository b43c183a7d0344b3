#pragma once

#include <array>
#include <cstdint>

#include "kinema/encoders/autoencoder.h"

namespace kinema::encoders {

/// Throws an Error that names the key and the nearest values that work where clips of this size do
/// not divide into latent cells, or those not into the transformer's patches (frames, height,
/// width, in cells), or are more patches on an axis than the transformer has positions for
/// (`most_patches`; 0: any number).
void check_clip_sizes(int64_t num_frames, int64_t height, int64_t width, const LatentLayout& layout,
                      const std::array<int64_t, 3>& patch_size = {1, 1, 1},
                      int64_t most_patches = 0);

}  // namespace kinema::encoders
