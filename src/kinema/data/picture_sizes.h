#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "kinema/core/host_array.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/source.h"

namespace kinema::data {

/// The size conditioning of a network with size_ids (arXiv:2307.01952, section 2.2): height and
/// width of the picture before cropping, the position of the crop, and the target size. Missing
/// sizes are those of the result.
struct PictureSizes {
  std::optional<std::array<int64_t, 2>> original = {};
  std::array<int64_t, 2> crop{0, 0};  // top, left
  std::optional<std::array<int64_t, 2>> target = {};

  bool operator==(const PictureSizes&) const = default;
};

/// f32 [6]: original height, width, crop top, left, target height, width.
HostArray size_ids(const PictureSizes& sizes, int64_t height, int64_t width);

/// The ids of a clip that is resized to a format (fit_frames). For a mirrored clip, the cropped
/// part is on the other side.
HostArray size_ids(const ClipSize& clip, const ClipFormat& format, std::optional<float> crop = {},
                   bool flipped = false);

/// Adds sizes to a source's samples that have none, as if the pictures were not resized or cropped;
/// `pixels` per side of a latent cell.
std::unique_ptr<Source> with_sizes(std::unique_ptr<Source> source, int64_t pixels);

}  // namespace kinema::data
