#include "kinema/graph/device_groups.h"

#include <algorithm>
#include <map>
#include <set>

#include "kinema/core/error.h"

namespace kinema {

int64_t axis_size(const MeshAxes& mesh, const std::string& name) {
  for (const auto& [axis, size] : mesh.axes) {
    if (axis == name) {
      return size;
    }
  }
  fail("[manual] `{}` is not an axis of the mesh", name);
}

int64_t parts_of(const MeshAxes& mesh, std::span<const std::string> axes) {
  int64_t parts = 1;
  for (const std::string& axis : axes) {
    parts *= axis_size(mesh, axis);
  }
  return parts;
}

void check_distinct_axes(std::span<const std::string> axes) {
  const std::set<std::string> distinct(axes.begin(), axes.end());
  check(distinct.size() == axes.size(), "[manual] a mesh axis is named twice for one tensor");
}

DeviceGroups device_groups(const MeshAxes& mesh, const std::vector<std::string>& axes) {
  check_distinct_axes(axes);
  const int64_t size = parts_of(mesh, axes);
  // Devices by their coordinates outside the axes, then by those along them.
  std::map<std::vector<int64_t>, std::vector<int64_t>> groups;
  int64_t devices = 1;
  for (const auto& [axis, count] : mesh.axes) {
    devices *= count;
  }
  for (int64_t device = 0; device < devices; ++device) {
    std::vector<int64_t> outside;
    std::map<std::string, int64_t> along;
    int64_t rest = device;
    for (auto axis = mesh.axes.rbegin(); axis != mesh.axes.rend(); ++axis) {
      const int64_t coordinate = rest % axis->second;
      rest /= axis->second;
      if (std::ranges::find(axes, axis->first) == axes.end()) {
        outside.insert(outside.begin(), coordinate);
      } else {
        along[axis->first] = coordinate;
      }
    }
    int64_t position = 0;
    for (const std::string& axis : axes) {
      position = position * axis_size(mesh, axis) + along.at(axis);
    }
    auto& members = groups[outside];
    members.resize(static_cast<size_t>(size));
    members[static_cast<size_t>(position)] = device;
  }
  DeviceGroups result{axes, {}};
  for (auto& [outside, members] : groups) {
    result.members.push_back(std::move(members));
  }
  return result;
}

DeviceGroups subgroups(const DeviceGroups& groups, int64_t size, int64_t stride) {
  check(size > 0 && stride > 0 && groups.size() % (size * stride) == 0,
        "[manual] groups of {} devices cannot be cut into groups of {} that lie {} apart",
        groups.size(), size, stride);
  DeviceGroups result{groups.axes, {}};
  for (const std::vector<int64_t>& whole : groups.members) {
    for (int64_t start = 0; start < groups.size(); ++start) {
      if (start / stride % size != 0) {
        continue;
      }
      std::vector<int64_t> members;
      for (int64_t i = 0; i < size; ++i) {
        members.push_back(whole[static_cast<size_t>(start + i * stride)]);
      }
      result.members.push_back(std::move(members));
    }
  }
  return result;
}

}  // namespace kinema
