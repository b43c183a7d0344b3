#pragma once

#include "kinema/core/host_array.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/encoders/image_condition.h"

/// The condition of Wan-Animate (arXiv:2509.14055): a picture of a character, and the frames of a
/// video that are known. Source: diffusers WanAnimatePipeline.
namespace kinema::encoders {

/// What the condition of a part of a video is made of.
struct AnimatedVideo {
  HostArray character;   // u8 [h, w, 3] of any size
  HostArray background;  // u8 [f, h, w, 3] of any size; without bytes: all is made
  HostArray mask;        // u8 [f, h, w], with a background: 255 is made, 0 kept
  HostArray before;      // f32 [3, k, H, W] in [-1, 1]: its first frames, if they are known
};

/// Channels f32 [temporal + z, 1 + f, h, w]: a mask (1 for what is known, with the frames of a
/// latent frame as channels) and latents; of the character in a frame of its own, with black bars,
/// then of the video, mid-grey where nothing is known. Throws an Error if background and mask are
/// not of the sizes' frames.
HostArray animate_condition(const AnimatedVideo& given, const PixelSizes& sizes,
                            const Autoencoder& autoencoder);

}  // namespace kinema::encoders
