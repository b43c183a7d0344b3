#pragma once

#include "kinema/core/host_array.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/encoders/image_condition.h"

/// The conditions of Wan Fun. Source: VideoX-Fun's pipelines.
namespace kinema::encoders {

/// Latents f32 [z, f, h, w] of the first frames of a video u8 [f, h, w, 3] of any size, resized
/// (Lanczos). Throws an Error if it has fewer frames.
HostArray video_latents(const HostArray& video, const PixelSizes& sizes,
                        const Autoencoder& autoencoder);

/// Latents f32 [z, f, h, w] of an image in the first latent frame, before zeros; zeros alone
/// without one.
HostArray start_latents(const HostArray& image, const PixelSizes& sizes,
                        const Autoencoder& autoencoder);

/// Latents f32 [z, 1, h, w] of an image; zeros without one.
HostArray frame_latents(const HostArray& image, const PixelSizes& sizes,
                        const Autoencoder& autoencoder);

/// As image_condition; zeros without images: all is made.
HostArray optional_condition(const ConditioningImages& images, const PixelSizes& sizes,
                             const Autoencoder& autoencoder);

}  // namespace kinema::encoders
