#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/source.h"

/// How much each latent counts in the loss: masks, and the weights of data sets.
namespace kinema::data {

/// True if the samples of a set have loss_weights: if a clip has a mask, or a data set a
/// loss_weight other than 1. `alpha`: the run's alpha_mask.
bool have_loss_weights(const ClipSet& clips, bool alpha);

/// True if alpha channels are masks of this clip: by its set's rule, or else the run's.
bool uses_alpha_mask(const ClipSet& clips, int64_t clip, bool run);

/// The clip's mask for latents [c, f, h, w]: f32 [1, f, h, w], the means over the pixels of each
/// latent, the same for all frames; 1 without a mask. `flipped`: of the mirrored clip. Throws the
/// Errors of ClipSet::read_mask.
HostArray mask_of_latents(const ClipSet& clips, int64_t clip, const ClipFormat& format,
                          const ClipWindow& window, bool flipped, bool alpha, const Dims& latents);

/// Throws an Error unless the bytes are a picture by their header, with the clip's aspect ratio.
void check_mask(std::span<const std::byte> bytes, const std::string& name, const ClipSize& clip);

/// Multiplies the weights of a sample by its set's loss_weight.
void apply_set_weight(const ClipSet& clips, int64_t clip, Sample& sample);

}  // namespace kinema::data
