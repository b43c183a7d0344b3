#include "kinema/models/config_check.h"

#include <cmath>

#include "kinema/core/error.h"

namespace kinema {

void ConfigCheck::range(std::string_view key, int64_t value, int64_t low, int64_t high) const {
  check(value >= low && value <= high, "[{}] `{}` is {} but must be from {} to {}", model, key,
        value, low, high);
}

void ConfigCheck::epsilon(std::string_view key, double value) const {
  check(std::isfinite(value) && value > 0.0 && value < 1.0,
        "[{}] `{}` is {} but must be between 0 and 1", model, key, value);
}

}  // namespace kinema
