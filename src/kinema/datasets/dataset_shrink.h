#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kinema/data/clip_set.h"
#include "kinema/data/survey.h"
#include "kinema/datasets/clips.h"
#include "kinema/encoders/autoencoder.h"

/// Data sets with mostly unusable clips.
namespace kinema::datasets {

/// True if a model supports samples with `num_frames` frames.
using FitsFrames = std::function<bool(int64_t num_frames)>;
/// By an autoencoder's latent cells.
FitsFrames fits_frames(const ClipSettings& settings, const encoders::LatentLayout& layout);

/// Throws an Error if more than half of the clips are unusable for the same reason, unless
/// allow_dataset_shrink is set. If they are too short, the Error says how many a smaller
/// num_frames, another bucket, target_fps or frame_stride would keep.
void check_enough(const ClipSettings& settings, const data::ClipSet& clips,
                  const data::Survey& survey, const FitsFrames& fits);

/// `num_frames=17 keeps 14 of 15`; empty if clips are unusable for another reason, or no value
/// keeps more.
std::string length_remedy(const ClipSettings& settings, const data::Survey& survey,
                          const FitsFrames& fits);

}  // namespace kinema::datasets
