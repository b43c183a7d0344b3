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

using encoders::GivenImages;

/// Which condition a transformer wants, by its channels: CHANNELS when it takes the latents, the
/// mask and the condition's latents; FIRST_FRAME when it takes the latents alone, one timestep a
/// token, and an image is given; else NONE.
///
/// Throws an Error when the channels fit neither the autoencoder nor that layout (the 16-channel
/// VAE with a 48-channel model), when an image is missing, or when one is given that the model does
/// not look at.
Condition condition_of(const networks::Sizes& network, const encoders::LatentLayout& layout,
                       bool expand_timesteps, const GivenImages& images);

/// Throws an Error when the model looks at its images through CLIP and there is no encoder or not
/// as many images as it has positions for.
void check_image_tokens(const networks::Sizes& network, bool has_encoder,
                        const GivenImages& images);

/// The condition of one video, without the batch axis: encoders::image_condition for CHANNELS,
/// first_frame_latents for FIRST_FRAME, no bytes for NONE. Throws an Error when the autoencoder
/// makes other sizes.
HostArray image_condition(Condition kind, const GivenImages& images, const VideoSizes& sizes,
                          const encoders::Autoencoder& autoencoder);

}  // namespace kinema::sample
