#include "kinema/pjrt/device_groups.h"

#include <algorithm>
#include <set>

#include "kinema/core/error.h"

namespace kinema::pjrt {
namespace {

using Groups = std::vector<std::vector<int64_t>>;

constexpr int64_t kMostDevices = int64_t{1} << 20;  // bounds a module's sizes, which may be wrong

/// Sizes of a grid, and the row-major strides of its axes.
struct Grid {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t count = 1;

  explicit Grid(std::vector<int64_t> of) : sizes(std::move(of)), strides(sizes.size()) {
    for (size_t axis = sizes.size(); axis-- > 0;) {
      strides[axis] = count;
      check(sizes[axis] > 0 && sizes[axis] <= kMostDevices / count,
            "[pjrt] the optimized program has a grid of devices with an axis of {}", sizes[axis]);
      count *= sizes[axis];
    }
  }

  /// The devices of the grid with its axes in the given order, last fastest.
  std::vector<int64_t> walk(const std::vector<size_t>& order) const {
    std::vector<int64_t> out{0};
    for (const size_t axis : order) {
      std::vector<int64_t> next;
      next.reserve(out.size() * static_cast<size_t>(sizes[axis]));
      for (const int64_t base : out) {
        for (int64_t i = 0; i < sizes[axis]; ++i) {
          next.push_back(base + i * strides[axis]);
        }
      }
      out = std::move(next);
    }
    return out;
  }
};

size_t axis_of(int64_t index, size_t rank) {
  check(index >= 0 && static_cast<size_t>(index) < rank,
        "[pjrt] the optimized program has a device list with the axis {} of {}", index, rank);
  return static_cast<size_t>(index);
}

/// Divides `devices` into groups of `size`.
Groups cut(const std::vector<int64_t>& devices, int64_t size) {
  check(size > 0 && std::ssize(devices) % size == 0,
        "[pjrt] the optimized program has groups of {} among {} devices", size, devices.size());
  Groups out;
  for (size_t at = 0; at < devices.size(); at += static_cast<size_t>(size)) {
    const auto begin = devices.begin() + static_cast<std::ptrdiff_t>(at);
    out.emplace_back(begin, begin + size);
  }
  return out;
}

/// 0, 1, 2, ... reshaped, transposed, and divided into groups.
Groups of_iota(const wire::IotaGroups& iota) {
  const Grid grid({iota.dims().begin(), iota.dims().end()});
  std::vector<size_t> order;
  for (size_t axis = 0; axis < grid.sizes.size(); ++axis) {
    const auto place = static_cast<int>(axis);
    order.push_back(place < iota.permutation_size()
                        ? axis_of(iota.permutation(place), grid.sizes.size())
                        : axis);
  }
  check(std::set(order.begin(), order.end()).size() == order.size(),
        "[pjrt] the optimized program has a device list that permutes no axes");
  return cut(grid.walk(order), iota.group_size());
}

Groups of_mesh(const wire::MeshGroups& groups) {
  std::vector<int64_t> sizes;
  for (const auto& axis : groups.mesh().axes()) {
    sizes.push_back(axis.size());
  }
  const Grid grid(std::move(sizes));
  std::vector<size_t> within;
  int64_t size = 1;
  for (const auto& axis : groups.axes()) {
    within.push_back(axis_of(axis.index(), grid.sizes.size()));
    size *= grid.sizes[within.back()];
  }
  check(std::set(within.begin(), within.end()).size() == within.size(),
        "[pjrt] the optimized program has groups that name an axis twice");
  std::vector<size_t> order;  // one group after the other
  for (size_t axis = 0; axis < grid.sizes.size(); ++axis) {
    if (std::ranges::find(within, axis) == within.end()) {
      order.push_back(axis);
    }
  }
  order.insert(order.end(), within.begin(), within.end());
  return cut(grid.walk(order), size);
}

template <typename Lists>
Groups of_lists(const Lists& lists) {
  Groups out;
  for (const auto& list : lists) {
    out.emplace_back(list.replica_ids().begin(), list.replica_ids().end());
  }
  return out;
}

}  // namespace

std::vector<std::vector<int64_t>> device_groups(const wire::HloInstruction& instruction) {
  const wire::CollectiveDeviceList& devices = instruction.collective_device_list();
  if (instruction.mesh_groups().axes_size() > 0) {
    return of_mesh(instruction.mesh_groups());
  }
  if (instruction.iota_groups().group_size() > 0) {
    return of_iota(instruction.iota_groups());
  }
  if (devices.iota().group_size() > 0) {
    return of_iota(devices.iota());
  }
  return of_lists(devices.replica_groups_size() > 0 ? devices.replica_groups()
                                                    : instruction.replica_groups());
}

}  // namespace kinema::pjrt
