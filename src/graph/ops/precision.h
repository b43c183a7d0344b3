#pragma once

#include <string>

#include "graph/ops.h"

namespace kinema {

/// `precision_config = [...]` of a product of two operands.
std::string precision_attribute(Precision precision);

}  // namespace kinema
