#pragma once

#include <vector>

#include "pjrt/api.h"
#include "pjrt/value.h"

namespace kinema::pjrt {

/// Views into `values`, which must outlive the result.
std::vector<PJRT_NamedValue> to_named_values(const NamedValues& values);

}  // namespace kinema::pjrt
