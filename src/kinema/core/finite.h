#pragma once

#include <cstddef>
#include <span>

#include "kinema/core/dtype.h"
#include "kinema/core/host_array.h"

namespace kinema {

/// Whether no element, in native byte order, is infinite or NaN. Integers are always finite.
bool all_finite(std::span<const std::byte> bytes, DType dtype);
inline bool all_finite(const HostArray& array) {
  return all_finite(array.bytes, array.shape.dtype);
}

}  // namespace kinema
