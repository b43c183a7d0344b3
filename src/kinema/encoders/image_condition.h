#pragma once

#include <cstdint>

#include "kinema/core/host_array.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/encoders/image_encoder.h"

/// What a transformer that makes videos of images is shown of them: the same for training and for
/// sampling.
namespace kinema::encoders {

/// The images that a video begins (and ends) with, u8 [h, w, 3] of any size; no bytes where there
/// is none.
struct GivenImages {
  HostArray first;
  HostArray last;
};

/// Frames, rows and columns of a video.
struct PixelSizes {
  int64_t num_frames = 0;
  int64_t height = 0;
  int64_t width = 0;
};

/// What stands behind the channels of the noisy latents, f32 [temporal + z, f, h, w]: the mask (1
/// where a frame is given, the frames of a latent frame as channels), then the latents of the video
/// [first, mid-grey..., last]. Throws an Error when one frame is to be two images.
HostArray image_condition(const GivenImages& images, const PixelSizes& sizes,
                          const Autoencoder& autoencoder);

/// What stands in place of the first latent frame (TI2V), f32 [z, 1, h, w]: the image alone.
HostArray first_frame_latents(const HostArray& image, int64_t height, int64_t width,
                              const Autoencoder& autoencoder);

/// CLIP's tokens of the images, the last behind the first: f32 [n, d].
HostArray image_tokens(const GivenImages& images, const ImageEncoder& encoder);

}  // namespace kinema::encoders
