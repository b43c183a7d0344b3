#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kinema/data/clip_set.h"
#include "kinema/data/survey.h"
#include "kinema/datasets/clips.h"
#include "kinema/encoders/autoencoder.h"

/// Data sets most of which cannot be used.
namespace kinema::datasets {

/// Whether a model takes samples of so many frames.
using FitsFrames = std::function<bool(int64_t num_frames)>;
/// By an autoencoder's latent cells.
FitsFrames fits_frames(const ClipSettings& settings, const encoders::LatentLayout& layout);

/// Throws an Error when more than half of the clips cannot be used for one and the same reason,
/// unless allow_dataset_shrink is set: with which num_frames, bucket, target_fps or frame_stride
/// how many would be kept, where they are too short.
void check_enough(const ClipSettings& settings, const data::ClipSet& clips,
                  const data::Survey& survey, const FitsFrames& fits);

/// `num_frames=17 keeps 14 of 15`; empty where that is not what clips lack, or nothing keeps more.
std::string what_keeps(const ClipSettings& settings, const data::Survey& survey,
                       const FitsFrames& fits);

}  // namespace kinema::datasets
