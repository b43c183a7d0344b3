#pragma once

#include <string>

#include "kinema/graph/ops.h"

namespace kinema {

/// `precision_config = [...]` of a product of two operands.
std::string precision_attribute(Precision precision);

}  // namespace kinema
