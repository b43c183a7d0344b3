#pragma once

#include <cstdint>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/runtime/array.h"

namespace kinema::runtime {

/// An array that waits in the host's memory: each distinct part of it that devices of this process
/// held. Where several processes share the devices, each has its own parts.
class HostParts {
 public:
  HostParts() = default;
  /// Copies; waits for it. Of parts that several devices hold, the first one's copy.
  explicit HostParts(const Array& array);

  const Shape& shape() const { return shape_; }
  int64_t bytes() const;
  /// Puts the parts together. Throws an Error where other processes have some of them.
  HostArray whole() const;
  /// Back to the devices that it lay on, which hold of it what they held.
  Array upload(const Devices& devices, Memory memory) const;

 private:
  Shape shape_;
  std::vector<mesh::Block> blocks_;  // of each device
  std::vector<HostArray> parts_;     // in the order of mesh::holders_of
};

/// What HostParts of an array that lies so takes in this process.
int64_t host_bytes(const Devices& devices, const Shape& shape, const Sharding& sharding);

}  // namespace kinema::runtime
