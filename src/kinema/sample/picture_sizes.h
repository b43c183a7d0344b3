#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kinema/core/host_array.h"

namespace kinema::sample {

/// What a network that is told sizes is told (arXiv:2307.01952, section 2.2): height and width of
/// the picture before it was cut to the training's size, where it was cut, and those it has now.
/// What is not given is the size that is made.
struct PictureSizes {
  std::optional<std::array<int64_t, 2>> original = {};
  std::array<int64_t, 2> crop{0, 0};  // top, left
  std::optional<std::array<int64_t, 2>> target = {};

  bool operator==(const PictureSizes&) const = default;
};

/// f32 [6]: original height, width, crop top, left, target height, width.
HostArray size_ids(const PictureSizes& sizes, int64_t height, int64_t width);

}  // namespace kinema::sample
