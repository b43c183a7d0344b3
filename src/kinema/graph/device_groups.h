#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/graph.h"

/// Groups of a mesh's devices.
namespace kinema {

/// The number of devices along a mesh axis. Throws an Error for an unknown name.
int64_t axis_size(const MeshAxes& mesh, const std::string& name);
/// The number of devices along all of these axes together.
int64_t parts_of(const MeshAxes& mesh, std::span<const std::string> axes);
/// Throws an Error if an axis is named twice.
void check_distinct_axes(std::span<const std::string> axes);

/// Devices that communicate, in lists of equal length. A device's index in its list is its
/// position.
struct DeviceGroups {
  /// Mesh axes along which the coordinates of a group's members differ.
  std::vector<std::string> axes;
  std::vector<std::vector<int64_t>> members;

  int64_t size() const { return static_cast<int64_t>(members.front().size()); }
};

/// Groups of devices whose coordinates differ only along `axes`, major first. Throws an Error for
/// an unknown or repeated axis.
DeviceGroups device_groups(const MeshAxes& mesh, const std::vector<std::string>& axes);
/// Each group divided into groups of `size` members whose positions differ by `stride`: neighbours
/// for stride 1. Throws an Error unless size * stride divides the size of the groups.
DeviceGroups subgroups(const DeviceGroups& groups, int64_t size, int64_t stride);

}  // namespace kinema
