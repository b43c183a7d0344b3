#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/networks/network.h"
#include "kinema/sample/given_files.h"
#include "kinema/sample/sizes.h"

/// How much control branches and ControlNets add in each step.
namespace kinema::sample {

/// The factor of one result, from the step at `start` of all steps to the one at `end`.
struct ControlScale {
  double scale = 1.0;
  double start = 0.0;
  double end = 1.0;
};

/// One for each of the network's control_layers. Throws an Error for another number of values, or
/// one out of its range.
std::vector<ControlScale> control_scales(const networks::Sizes& network, const GivenFiles& files);

/// The factors in step i of n, f32 [control_layers]: 0 if i / n < start or (i + 1) / n > end, as in
/// diffusers.
HostArray scales_at(std::span<const ControlScale> scales, int64_t step, int64_t steps);

/// The pictures of ControlNets, f32 [3 n, 1, height, width] in [0, 1], resized with PIL's Lanczos
/// filter without keeping the aspect ratio.
HostArray control_pixels(std::span<const HostArray> pictures, const VideoSizes& sizes);

}  // namespace kinema::sample
