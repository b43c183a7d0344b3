#pragma once

#include <cstdint>
#include <string>

#include "core/host_array.h"
#include "encoders/autoencoder.h"
#include "encoders/image_encoder.h"
#include "models/wan/config.h"
#include "sample/denoise_step.h"
#include "sample/sizes.h"

namespace kinema::sample {

/// The images that a video is to begin (and end) with, u8 [h, w, 3] of any size; no bytes where
/// there is none.
struct GivenImages {
  HostArray first;
  HostArray last;
};

/// Which condition a transformer wants, by its channels: CHANNELS when it takes the latents, the
/// mask and the condition's latents; FIRST_FRAME when it takes the latents alone, one timestep a
/// token, and an image is given; else NONE.
///
/// Throws an Error when the channels fit neither the autoencoder nor that layout (the 16-channel
/// VAE with a 48-channel model), when an image is missing, or when one is given that the model does
/// not look at.
Condition condition_of(const wan::TransformerConfig& config, const encoders::LatentLayout& layout,
                       bool expand_timesteps, const GivenImages& images);

/// Throws an Error when the model looks at its images through CLIP and there is no encoder or not
/// as many images as it has positions for.
void check_image_tokens(const wan::TransformerConfig& config, bool has_encoder,
                        const GivenImages& images);

/// The condition of one video, without the batch axis.
///
/// CHANNELS, f32 [temporal + z, f, h, w]: the mask (1 where a frame is given, the frames of a
/// latent frame as channels), then the latents of the video [first, mid-grey..., last].
/// FIRST_FRAME, f32 [z, 1, h, w]: the latents of the image alone.
HostArray image_condition(Condition kind, const GivenImages& images, const VideoSizes& sizes,
                          const encoders::Autoencoder& autoencoder);

/// CLIP's tokens of the images, the last behind the first: f32 [n, d].
HostArray image_tokens(const GivenImages& images, const encoders::ImageEncoder& encoder);

}  // namespace kinema::sample
