#pragma once

#include <array>
#include <cstdint>

#include "core/shape.h"
#include "encoders/autoencoder.h"

namespace kinema::sample {

/// Sizes of a video and of its latents.
struct VideoSizes {
  int64_t num_frames = 0;  // as made: rounded down to what the autoencoder has
  int64_t height = 0;
  int64_t width = 0;
  Dims latents;  // [c, f, h, w] of one video

  bool operator==(const VideoSizes&) const = default;
};

/// What a video of these sizes is in latents. `num_frames` is rounded down to the next length that
/// there is (4 k + 1 for Wan's VAE), as the reference does; the caller says so when it differs.
///
/// Throws an Error naming the nearest sizes that work when height or width does not divide into
/// latent cells and patches, or when nothing is left of num_frames.
VideoSizes video_sizes(int64_t num_frames, int64_t height, int64_t width,
                       const encoders::LatentLayout& layout,
                       const std::array<int64_t, 3>& patch_size);

}  // namespace kinema::sample
