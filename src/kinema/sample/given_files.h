#pragma once

#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/encoders/image_condition.h"

namespace kinema::sample {

using encoders::ConditioningImages;

/// What a Wan-Animate model follows, u8 [f, h, w, 3] of any sizes: all of as many frames as the
/// poses, or more.
struct Animation {
  HostArray poses;       // drawn skeletons
  HostArray faces;       // pictures of the face alone
  HostArray background;  // of a video in which the character replaces a person; none: its own
  HostArray mask;        // u8 [f, h, w], with a background: 255 is made, 0 kept
  int64_t segment_frames = 77;  // longer videos are made in segments of so many frames
  int64_t shared_frames = 1;    // with which each segment continues the one before

  bool is_given() const {
    return !poses.bytes.empty() || !faces.bytes.empty() || !background.bytes.empty() ||
           !mask.bytes.empty();
  }
};

/// The pictures and videos of a request from which a network's named inputs are made; without bytes
/// if not given.
struct GivenFiles {
  ConditioningImages images;          // the first (and last) frame of the videos
  HostArray control_image;            // u8 [h, w, 3] of any size
  std::vector<HostArray> references;  // u8 [h, w, 3] of any sizes
  HostArray control_video;            // u8 [f, h, w, 3] of any size and as many frames, or more
  HostArray control_mask;             // u8 [f, h, w], the same sizes: 255 is made, 0 kept
  Animation animation;
  std::vector<HostArray> control_pictures;  // u8 [h, w, 3] of any sizes, which ControlNets follow
  /// The factor of each result of a control branch, or of what each ControlNet adds; one for all,
  /// or none: 1.
  std::vector<double> control_scale;
  /// The parts of the steps before and after which the factor is 0; one for all, or none: all
  /// steps.
  std::vector<double> control_start;
  std::vector<double> control_end;
  /// What ControlNets add rises from a tenth for the first skip connection to all for the middle,
  /// and with guidance only the prompt's half follows the pictures.
  bool guess_mode = false;
  /// References that become tokens get one of the sizes that the model was trained with
  /// (encoders::reference_size); else their own size.
  bool resizes_references = true;
};

}  // namespace kinema::sample
