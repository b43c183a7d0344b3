#pragma once

#include "kinema/core/dtype.h"
#include "kinema/pjrt/api.h"

namespace kinema::pjrt {

/// PJRT's element type of a dtype.
PJRT_Buffer_Type to_pjrt(DType dtype);

/// The inverse; throws an Error for types that kinema does not have (complex, 4-bit, ...).
DType from_pjrt(PJRT_Buffer_Type type);

}  // namespace kinema::pjrt
