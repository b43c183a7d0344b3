#pragma once

#include "kinema/core/host_array.h"

namespace kinema::encoders {

/// What turns an image into context tokens (Wan 2.1 image-to-video).
class ImageEncoder {
 public:
  virtual ~ImageEncoder() = default;
  /// f32 [n, d] of an image.
  virtual Shape shape() const = 0;
  /// u8 [H, W, 3] of any size -> f32 [n, d].
  virtual HostArray encode(const HostArray& image) const = 0;
  /// Gives the parameters' memory back; the next encode loads them again.
  virtual void release() const {}
};

}  // namespace kinema::encoders
