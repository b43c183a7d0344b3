#pragma once

#include "kinema/core/dtype.h"

namespace kinema::runtime {

/// The unsigned type of the same width.
inline DType bits_type(DType dtype) {
  switch (byte_size(dtype)) {
    case 1:
      return DType::U8;
    case 2:
      return DType::U16;
    case 4:
      return DType::U32;
    default:
      return DType::U64;
  }
}

}  // namespace kinema::runtime
