#pragma once

#include <cstdint>

#include "kinema/core/host_array.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/encoders/image_encoder.h"

/// The image conditioning of image-to-video transformers: the same for training and sampling.
namespace kinema::encoders {

/// The first (and last) image of a video, u8 [h, w, 3] of any size; without bytes if not given.
struct ConditioningImages {
  HostArray first;
  HostArray last;
};

/// The size of a video in pixels.
struct PixelSizes {
  int64_t num_frames = 0;
  int64_t height = 0;
  int64_t width = 0;
};

/// The channels after those of the noisy latents, f32 [temporal + z, f, h, w]: the mask (1 for
/// given frames, with the frames of a latent frame as channels), then the latents of the video
/// [first, mid-grey..., last]. Throws an Error for two images and a single frame.
HostArray image_condition(const ConditioningImages& images, const PixelSizes& sizes,
                          const Autoencoder& autoencoder);

/// Replaces the first latent frame (TI2V), f32 [z, 1, h, w]: the latents of the image.
HostArray first_frame_latents(const HostArray& image, int64_t height, int64_t width,
                              const Autoencoder& autoencoder);

/// CLIP's tokens of the images, the first image's, then the last one's: f32 [n, d].
HostArray image_tokens(const ConditioningImages& images, const ImageEncoder& encoder);

}  // namespace kinema::encoders
