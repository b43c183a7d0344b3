#include "kinema/verification/arrays.h"

#include <algorithm>

#include "kinema/core/error.h"

namespace kinema::verification {

HostArray numbers(const std::vector<float>& values) {
  return HostArray::f32({std::ssize(values)}, values);
}

HostArray floats_of(const HostArray& whole) {
  const auto values = whole.as<int64_t>();
  return numbers({values.begin(), values.end()});
}

HostArray scaled(HostArray x, float factor) {
  for (float& value : x.as<float>()) {
    value *= factor;
  }
  return x;
}

HostArray joined(std::span<const HostArray> each) {
  check(!each.empty(), "[verify] no arrays to compare");
  Shape shape = each.front().shape;
  shape.dims.insert(shape.dims.begin(), std::ssize(each));
  HostArray out(shape);
  auto to = out.bytes.begin();
  for (const HostArray& one : each) {
    to = std::ranges::copy(one.bytes, to).out;
  }
  return out;
}

HostArray part_of(const HostArray& all, int64_t i) {
  check(all.shape.rank() > 0 && i >= 0 && i < all.shape.dims[0],
        "[verify] element {} of {}, which has no such element", i, to_string(all.shape));
  Shape shape = all.shape;
  shape.dims.erase(shape.dims.begin());
  HostArray out(shape);
  std::copy_n(all.bytes.begin() + i * shape.bytes(), shape.bytes(), out.bytes.begin());
  return out;
}

}  // namespace kinema::verification
