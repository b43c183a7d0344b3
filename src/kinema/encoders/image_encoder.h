#pragma once

#include "kinema/core/host_array.h"

namespace kinema::encoders {

/// Encodes an image as context tokens (Wan 2.1 image-to-video).
class ImageEncoder {
 public:
  virtual ~ImageEncoder() = default;
  /// f32 [n, d], the result for one image.
  virtual Shape shape() const = 0;
  /// u8 [H, W, 3] of any size -> f32 [n, d].
  virtual HostArray encode(const HostArray& image) const = 0;
  /// Frees the memory of the parameters; the next encode loads them again.
  virtual void release() const {}
};

}  // namespace kinema::encoders
