#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/data/clip_set.h"

/// Random masks for networks that fill in a masked part of a picture.
namespace kinema::data {

/// LaMa's kinds (arXiv:2109.07161, section 2.3), of which Stable Diffusion's inpainting models were
/// trained with the first and the last.
enum class MaskKind : uint8_t {
  STROKES,  // 1 to 5 bent strokes of a brush of random width
  BOXES,    // 1 to 4 rectangles
  ALL,      // the whole picture
};
/// `strokes`, `boxes` or `all`; throws an Error that lists them for another name.
MaskKind mask_kind_from_string(std::string_view name);
/// `strokes boxes by seed 7`
std::string text_of(const std::vector<MaskKind>& kinds, uint64_t seed);

/// f32 [height, width]: 1 where the picture is made, 0 where it is kept. One of `kinds`, which has
/// at least one, at equal probability. Lengths are those of LaMa for a shorter side of 512 pixels.
HostArray training_mask(const std::vector<MaskKind>& kinds, int64_t height, int64_t width,
                        std::array<uint32_t, 2> key);

/// Gives a clip without a mask of its own a training_mask, the same for all its frames. `format` is
/// that of the clip. Does nothing without kinds.
void add_training_mask(const std::vector<MaskKind>& kinds, const ClipFormat& format,
                       std::array<uint32_t, 2> key, ClipControl& control);

}  // namespace kinema::data
