#pragma once

#include <cstdint>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/encoders/image_condition.h"
#include "kinema/encoders/reference_image.h"

/// The condition of VACE (arXiv:2503.07598): a video to follow or to complete, masks of what is
/// made, and reference images.
namespace kinema::encoders {

/// What the condition is made of.
struct ControlVideo {
  HostArray frames;  // u8 [f, h, w, 3] of any size; without bytes: grey, of which all is made
  HostArray mask;    // u8 [f, h, w]: 255 is made, 0 kept; without bytes: all is made
  std::vector<HostArray> references;  // u8 [h, w, 3] of any sizes
};

/// Its arrays. Frames and masks are resized to the sizes (Lanczos); a reference is scaled to fit
/// (bilinear) and put in the middle of a white picture.
struct ControlPixels {
  HostArray frames;                   // f32 [3, F, H, W] in [-1, 1]
  HostArray mask;                     // f32 [F, H, W] in [0, 1], with the values between
  std::vector<HostArray> references;  // f32 [3, H, W] in [-1, 1]
};

/// Throws an Error if the frames are not those of `sizes`, or if masks are not of the frames'
/// number and size.
ControlPixels control_pixels(const ControlVideo& given, const PixelSizes& sizes);

/// Control latents f32 [2 z + s s, references + f, h, w], with cells of s x s pixels: latents of
/// the frames where they are kept, then where they are made (mid-grey elsewhere), then the mask's
/// pixels in each cell, of the frames nearest to the middle of each latent frame. Each reference is
/// a frame in front, of latents, zeros and zeros; the last one comes first, as in diffusers.
HostArray control_condition(const ControlVideo& given, const PixelSizes& sizes,
                            const Autoencoder& autoencoder);

/// The size at which a control video of height x width pixels is followed: its own, or scaled down
/// to fit into `most` if its area is larger, in multiples of `unit`.
PictureSize control_size(const PictureSize& video, const PictureSize& most, int64_t unit);

}  // namespace kinema::encoders
