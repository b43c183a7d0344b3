#pragma once

#include "kinema/core/dtype.h"
#include "kinema/pjrt/api.h"

namespace kinema::pjrt {

/// PJRT's name of an element type.
PJRT_Buffer_Type to_pjrt(DType dtype);

/// Our name; throws an Error for types that kinema has none for (complex, 8-bit floats, ...).
DType from_pjrt(PJRT_Buffer_Type type);

}  // namespace kinema::pjrt
