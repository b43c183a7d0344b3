#pragma once

#include <array>
#include <cstdint>

#include "kinema/core/shape.h"
#include "kinema/encoders/autoencoder.h"

namespace kinema::sample {

/// Sizes of a video and of its latents.
struct VideoSizes {
  int64_t num_frames = 0;  // a length that the autoencoder supports
  int64_t height = 0;
  int64_t width = 0;
  Dims latents;            // [c, f, h, w] of one video
  int64_t references = 0;  // frames in front of these while it is denoised: reference images
  bool is_image = false;   // a single frame, for models of images

  /// Those of the denoised latents.
  Dims denoised() const {
    Dims out = latents;
    out.at(1) += references;
    return out;
  }
  bool operator==(const VideoSizes&) const = default;
};

/// The sizes of a video and its latents. With a separate first latent frame (Wan's VAE), num_frames
/// becomes temporal * (num_frames / temporal) + 1, as in the reference: 80 to 83 become 81.
/// Otherwise it is rounded down to complete latent frames. The caller reports a difference.
///
/// `most_patches` is the number of positions of the model on each axis (rope_max_seq_len). Throws
/// an Error with the nearest valid sizes if height or width does not divide into latent cells and
/// patches, if a size has too many patches, or if num_frames is too small.
VideoSizes video_sizes(int64_t num_frames, int64_t height, int64_t width,
                       const encoders::LatentLayout& layout,
                       const std::array<int64_t, 3>& patch_size, int64_t most_patches = 1024);

}  // namespace kinema::sample
