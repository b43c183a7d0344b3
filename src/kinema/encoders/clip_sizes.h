#pragma once

#include <array>
#include <cstdint>

#include "kinema/encoders/autoencoder.h"

namespace kinema::encoders {

/// Throws an Error with the key and the nearest valid values if clips of this size do not divide
/// into latent cells, or the cells into the transformer's patches (frames, height, width, in
/// cells), or if an axis has more patches than the transformer has positions (`most_patches`; 0:
/// any number).
void check_clip_sizes(int64_t num_frames, int64_t height, int64_t width, const LatentLayout& layout,
                      const std::array<int64_t, 3>& patch_size = {1, 1, 1},
                      int64_t most_patches = 0);

}  // namespace kinema::encoders
