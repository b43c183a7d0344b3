#pragma once

#include "kinema/core/host_array.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/source.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/encoders/image_encoder.h"
#include "kinema/networks/named_input.h"

/// What training shows a network of a clip, in addition to its latents.
namespace kinema::encoders {

/// What a network is shown of a clip beside its latents.
struct ClipInput {
  const networks::NamedInput* input = nullptr;  // networks::Sizes::stored_input; null: nothing
  bool last_frame = false;                      // FIRST_AND_LAST: of its last frame too
};

/// The latents of a clip f32 [3, f, h, w], and the values of the network's input, if it has one: of
/// the clip's first (and last) frame, with CLIP's tokens if there is an `image` encoder, or of the
/// files beside it. An optional input of which the clip has no file
/// stays without bytes; a control video that is not given is grey, of which all is made. Reference
/// images of a control video are frames in front of the latents too. Throws an Error for an input
/// that clips do not have.
data::Sample encode_clip(const HostArray& pixels, const data::ClipControl& control,
                         const ClipInput& wanted, const Autoencoder& autoencoder,
                         const ImageEncoder* image);

}  // namespace kinema::encoders
