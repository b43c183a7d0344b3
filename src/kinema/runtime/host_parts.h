#pragma once

#include <cstdint>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/runtime/array.h"

namespace kinema::runtime {

/// An array offloaded to host memory: each distinct part that was on devices of this process. If
/// several processes share the devices, each has its own parts.
class HostParts {
 public:
  HostParts() = default;
  /// Copies; waits for it. If several devices have the same part, the first one's copy is used.
  explicit HostParts(const Array& array);

  const Shape& shape() const { return shape_; }
  int64_t bytes() const;
  /// Joins the parts. Throws an Error if other processes have some of them.
  HostArray whole() const;
  /// Copies the parts back to the same devices.
  Array upload(const Devices& devices, Memory memory) const;

 private:
  Shape shape_;
  std::vector<mesh::Block> blocks_;  // of each device
  std::vector<HostArray> parts_;     // in the order of mesh::holders_of
};

/// Bytes of HostParts in this process, for an array with this sharding.
int64_t host_bytes(const Devices& devices, const Shape& shape, const Sharding& sharding);

}  // namespace kinema::runtime
