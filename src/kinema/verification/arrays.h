#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kinema/core/host_array.h"

namespace kinema::verification {

/// f32 [n].
HostArray numbers(const std::vector<float>& values);

/// Integers s64 as f32 [n].
HostArray floats_of(const HostArray& whole);

/// f(x) of each element of an f32 array, as f32 [n].
template <typename F>
HostArray mapped(const HostArray& x, const F& f) {
  std::vector<float> out;
  for (const float value : x.as<float>()) {
    out.push_back(static_cast<float>(f(static_cast<double>(value))));
  }
  return numbers(out);
}

/// The f32 array times `factor`.
HostArray scaled(HostArray x, float factor);

/// Stacks arrays of one shape [...] to [n, ...].
HostArray joined(std::span<const HostArray> each);

/// Element i of the first axis: [...] from [n, ...]. Throws an Error if it does not exist.
HostArray part_of(const HostArray& all, int64_t i);

}  // namespace kinema::verification
