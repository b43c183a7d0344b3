#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "kinema/core/host_array.h"
#include "kinema/core/threefry.h"

/// Test arrays, and distances between arrays.
namespace kinema {

/// Standard normal, f32, a function of dims and seed.
inline HostArray normal(Dims dims, uint64_t seed) {
  HostArray out(Shape{DType::F32, std::move(dims)});
  RandomStream stream(random_key(seed, "test"));
  for (float& x : out.as<float>()) {
    x = stream.normal();
  }
  return out;
}

/// Largest absolute value of an f32 array; infinity if any is NaN.
inline double largest(const HostArray& a) {
  double out = 0.0;
  for (const float x : a.as<float>()) {
    out = std::isnan(x) ? std::numeric_limits<double>::infinity()
                        : std::max<double>(out, std::abs(x));
  }
  return out;
}

/// Largest absolute difference of two f32 arrays of equal size; infinity if any is NaN.
inline double largest_difference(const HostArray& a, const HostArray& b) {
  EXPECT_EQ(a.shape.elements(), b.shape.elements());
  if (a.shape.elements() != b.shape.elements()) {
    return std::numeric_limits<double>::infinity();
  }
  double out = 0.0;
  for (size_t i = 0; i < a.as<float>().size(); ++i) {
    const double d = std::abs(static_cast<double>(a.as<float>()[i]) - b.as<float>()[i]);
    out = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(out, d);
  }
  return out;
}

}  // namespace kinema
