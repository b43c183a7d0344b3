#pragma once

#include <array>
#include <cstdint>

#include "kinema/core/shape.h"
#include "kinema/encoders/autoencoder.h"

namespace kinema::sample {

/// Sizes of a video and of its latents.
struct VideoSizes {
  int64_t num_frames = 0;  // as made: a length that the autoencoder has
  int64_t height = 0;
  int64_t width = 0;
  Dims latents;           // [c, f, h, w] of one video
  bool is_image = false;  // the one frame that its model makes

  bool operator==(const VideoSizes&) const = default;
};

/// What a video of these sizes is in latents. With a first frame of its own (Wan's VAE), num_frames
/// becomes temporal * (num_frames / temporal) + 1, as in the reference: 80 to 83 are 81. Else it is
/// rounded down to whole latent frames. The caller says so when it differs.
///
/// `most_patches` is how many the model has positions for on each axis (rope_max_seq_len). Throws
/// an Error naming the nearest sizes that work when height or width does not divide into latent
/// cells and patches, when a size has too many patches, or when nothing is left of num_frames.
VideoSizes video_sizes(int64_t num_frames, int64_t height, int64_t width,
                       const encoders::LatentLayout& layout,
                       const std::array<int64_t, 3>& patch_size, int64_t most_patches = 1024);

}  // namespace kinema::sample
