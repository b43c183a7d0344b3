#pragma once

#include <cstdint>

#include "kinema/core/host_array.h"
#include "kinema/encoders/autoencoder.h"

/// Pictures whose latents are tokens of a network beside those of the result (FLUX.1 Kontext).
namespace kinema::encoders {

/// Height and width in pixels.
struct PictureSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const PictureSize&) const = default;
};

/// The size at which a reference of height x width pixels is encoded. `resizes`: the one of
/// Kontext's 17 training sizes, of about a megapixel, whose aspect ratio is nearest; else its own,
/// rounded down to multiples of `unit`. Source: diffusers FluxKontextPipeline.
PictureSize reference_size(int64_t height, int64_t width, bool resizes, int64_t unit);

/// The mode of the latents of a picture u8 [h, w, 3], resized to `size` (Lanczos): f32 [z, 1, h,
/// w].
HostArray reference_latents(const HostArray& picture, const PictureSize& size,
                            const Autoencoder& autoencoder);

}  // namespace kinema::encoders
