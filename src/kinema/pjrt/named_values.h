#pragma once

#include <vector>

#include "kinema/pjrt/api.h"
#include "kinema/pjrt/value.h"

namespace kinema::pjrt {

/// Views into `values`, which must outlive the result.
std::vector<PJRT_NamedValue> to_named_values(const NamedValues& values);

}  // namespace kinema::pjrt
