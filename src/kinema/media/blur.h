#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kinema::media {

/// `values` [height, width] convolved with a Gaussian of this standard deviation in pixels, cut off
/// at 2.5 deviations. Beyond the edges the values are those of the edge.
std::vector<float> gaussian_blur(std::span<const float> values, int64_t height, int64_t width,
                                 double deviation);

}  // namespace kinema::media
