#pragma once

#include <cstdint>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/encoders/image_condition.h"
#include "kinema/networks/network.h"
#include "kinema/sample/denoise_step.h"
#include "kinema/sample/sizes.h"

namespace kinema::sample {

using encoders::ConditioningImages;

/// What the channels of an image network after those of the noisy latents hold: latents have z
/// channels, and cells of s x s pixels.
enum class ImageChannels : uint8_t {
  NONE,
  MASK_AND_KEPT,  // 1 + z: a mask of the latents, and the latents of the kept part (SDXL
                  // inpainting)
  KEPT_AND_MASK,  // z + s s: the kept part, and the mask's pixels in each cell (Flux Fill)
  CONTROL,        // z: the latents of a control image (Flux Canny and Depth)
};
/// By the number of channels; throws an Error for another number, or for a network that makes
/// videos.
ImageChannels image_channels(const networks::Sizes& network, const encoders::LatentLayout& layout);

/// The conditioning of a transformer, from its channels: CHANNELS if its input has the latents, the
/// mask and the conditioning latents; FIRST_FRAME if its input has the latents only, with one
/// timestep per token, and an image is given; else NONE.
///
/// Throws an Error if the channels fit neither (for example the 16-channel VAE with a 48-channel
/// model), if an image is missing, or if one is given that the model cannot use.
Condition detect_condition(const networks::Sizes& network, const encoders::LatentLayout& layout,
                           bool expand_timesteps, const ConditioningImages& images);

/// Throws an Error if the model uses CLIP's tokens of its images, and there is no encoder or
/// another number of images than the model has positions for.
void check_image_tokens(const networks::Sizes& network, bool has_encoder,
                        const ConditioningImages& images);

/// The conditioning of one video, without the batch axis: encoders::image_condition for CHANNELS,
/// first_frame_latents for FIRST_FRAME, no bytes for NONE. Throws an Error if the autoencoder
/// returns other sizes.
HostArray image_condition(Condition kind, const ConditioningImages& images, const VideoSizes& sizes,
                          const encoders::Autoencoder& autoencoder);

}  // namespace kinema::sample
