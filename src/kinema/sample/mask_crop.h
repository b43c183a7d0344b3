#pragma once

#include <cstdint>

#include "kinema/core/host_array.h"

/// Inpainting at full resolution: only the part of a picture around the mask is made, at the size
/// of the request, and is put back into the picture ("only masked" of AUTOMATIC1111's webui,
/// padding_mask_crop of diffusers).
namespace kinema::sample {

/// A rectangle of a picture, in pixels.
struct CropRegion {
  int64_t left = 0;
  int64_t top = 0;
  int64_t width = 0;
  int64_t height = 0;
  bool operator==(const CropRegion&) const = default;
};

/// The rectangle around all pixels of a mask u8 [h, w] that are not black, `padding` pixels larger
/// on each side, and then widened to the aspect ratio of height x width as far as the picture goes.
/// Source: diffusers, image_processor.py, get_crop_region. Throws an Error for a black mask.
CropRegion crop_region(const HostArray& mask, int64_t height, int64_t width, int64_t padding);

/// The region of u8 [h, w] or u8 [h, w, 3].
HostArray cropped(const HostArray& picture, const CropRegion& region);

/// A picture and its mask, of which only a region is made.
struct MaskCrop {
  HostArray picture;  // u8 [h, w, 3]
  HostArray mask;     // u8 [h, w]: 255 is made, 0 kept
  CropRegion region;
  double blur = 0.0;  // standard deviation in pixels of the picture, of the edge of the mask

  bool is_given() const { return !picture.bytes.empty(); }
};

/// The picture with the made pixels of the region, u8 [h, w, 3]: `made` u8 [h', w', 3] of any size
/// is resized (Lanczos) to the region, and mixed with the picture by the mask.
HostArray put_back(const MaskCrop& crop, const HostArray& made);

}  // namespace kinema::sample
