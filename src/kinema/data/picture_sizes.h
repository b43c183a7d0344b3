#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "kinema/core/host_array.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/source.h"

namespace kinema::data {

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

/// Those of a clip that is brought to a format's size (fit_frames): of a mirrored one, the part
/// that was cut away lies on its other side.
HostArray size_ids(const ClipSize& clip, const ClipFormat& format, std::optional<float> crop = {},
                   bool flipped = false);

/// The source's samples with the sizes that they have not: as if each picture had always been as
/// large as it is, at so many pixels a side of a latent cell.
std::unique_ptr<Source> with_sizes(std::unique_ptr<Source> source, int64_t pixels);

}  // namespace kinema::data
