#pragma once

#include <cmath>

#include "kinema/core/host_array.h"

namespace kinema {

/// Largest difference relative to the largest expected magnitude; infinite for NaN or another
/// number of elements.
inline double text_difference(const HostArray& got, const HostArray& want) {
  if (got.shape.elements() != want.shape.elements()) {
    return INFINITY;
  }
  double difference = 0.0;
  double magnitude = 0.0;
  for (size_t i = 0; i < got.as<float>().size(); ++i) {
    const double wanted = want.as<float>()[i];
    const double d = std::abs(got.as<float>()[i] - wanted);
    if (std::isnan(d)) {
      return INFINITY;
    }
    difference = std::max(difference, d);
    magnitude = std::max(magnitude, std::abs(wanted));
  }
  return difference / magnitude;
}

}  // namespace kinema
