#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/networks/network.h"
#include "kinema/sample/sizes.h"

namespace kinema::sample {

/// A picture that a ControlNet follows.
struct ControlPicture {
  HostArray picture;   // u8 [h, w, 3] of any size
  double scale = 1.0;  // the factor of what the ControlNet adds; 0: nothing
  /// The parts of the steps before and after which it adds nothing, 0 to 1.
  double start = 0.0;
  double end = 1.0;
};

/// The pictures of all ControlNets of a network, in their order, the same for all videos.
struct Controls {
  std::vector<ControlPicture> pictures;
  /// What is added rises from a tenth for the first skip connection to all for the middle, and with
  /// guidance only the prompt's half follows the pictures.
  bool guess_mode = false;

  bool is_given() const { return !pictures.empty(); }
};

/// Throws an Error if the network's ControlNets follow another number of pictures, or if a number
/// is out of its range.
void check_controls(const Controls& controls, const networks::Sizes& network);

/// f32 [3 n, 1, height, width] in [0, 1], resized with PIL's Lanczos filter without keeping the
/// aspect ratio; no bytes without pictures.
HostArray control_pixels(const Controls& controls, const VideoSizes& sizes);

/// The factor of each picture in step i of n: 0 if i / n < start or (i + 1) / n > end, as in
/// diffusers.
std::vector<double> control_scales(const Controls& controls, int64_t step, int64_t steps);

}  // namespace kinema::sample
