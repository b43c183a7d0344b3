#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/graph.h"

/// Which devices of a mesh work together.
namespace kinema {

/// Devices along a mesh axis. Throws an Error for a name that the mesh has not.
int64_t axis_size(const MeshAxes& mesh, const std::string& name);
/// Devices along all of these axes together.
int64_t parts_of(const MeshAxes& mesh, std::span<const std::string> axes);
/// Throws an Error when one is named twice.
void check_distinct_axes(std::span<const std::string> axes);

/// Devices that work together, in lists of equal length; a device's place in its list is its
/// position.
struct DeviceGroups {
  /// Mesh axes along which the members of a group differ.
  std::vector<std::string> axes;
  std::vector<std::vector<int64_t>> members;

  int64_t size() const { return static_cast<int64_t>(members.front().size()); }
};

/// Groups of devices that differ only in where they lie along `axes`, the first of which counts
/// most for the position. Throws an Error for an unknown or repeated axis.
DeviceGroups device_groups(const MeshAxes& mesh, const std::vector<std::string>& axes);
/// Each group cut into smaller ones of `size` members that lie `stride` positions apart: with
/// stride 1 neighbours. Throws an Error unless size * stride divides the groups' size.
DeviceGroups subgroups(const DeviceGroups& groups, int64_t size, int64_t stride);

}  // namespace kinema
