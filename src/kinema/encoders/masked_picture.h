#pragma once

#include <span>

#include "kinema/core/host_array.h"
#include "kinema/encoders/image_condition.h"
#include "kinema/networks/named_input.h"

/// What networks are shown that fill in a masked part of a picture: the same for training and
/// sampling. A mask has a number for each pixel, [height width]: 1 where the picture is made, 0
/// where it is kept.
namespace kinema::encoders {

/// Pixels f32 [3, f, height, width] with mid-grey where the picture is made.
HostArray kept_pixels(HostArray pixels, std::span<const float> made);

/// The mask of latents [z, f, h, w], f32 [1, 1, f, h, w]: of each cell its first pixel, as in
/// diffusers (F.interpolate, nearest).
HostArray latent_mask(std::span<const float> made, const PixelSizes& sizes, const Dims& latents);

/// The mask and the latents f32 [n, z, f, h, w] of kept_pixels as channels, f32 [n, channels, f, h,
/// w], in the order of MASK_AND_KEPT, FOLLOWED_AND_KEPT (whose mask is 1 where the picture is kept)
/// or KEPT_AND_MASK (whose mask has the pixels of each cell as channels).
HostArray fill_channels(networks::MadeOf made_of, std::span<const float> made,
                        const PixelSizes& sizes, const HostArray& kept);

}  // namespace kinema::encoders
