#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/device_groups.h"
#include "kinema/graph/graph.h"

/// Manual regions: parts of a program that are written for one device, with explicit collectives.
/// In the rest of the program the compiler's partitioner inserts them. As JAX's shard_map.
namespace kinema {

/// Shardings of a region's values.
struct ManualSpec {
  /// The mesh of the program that contains the region.
  MeshAxes mesh;
  /// One per input: the body receives one device's part. The input is replicated along axes that
  /// are not named.
  std::vector<Sharding> in;
  /// One per result: the body returns one device's part. Along axes that are not named, all devices
  /// must return equal values.
  std::vector<Sharding> out;
};

/// Runs `body(parts of the inputs)` on every device and returns the reassembled results. Tensors
/// that the body captures are replicated.
///
/// Throws an Error if sizes do not divide by their mesh axes, or if an axis is unknown or named
/// twice.
std::vector<Tensor> manual(std::vector<Tensor> inputs, ManualSpec spec,
                           const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body);

// ---- Collectives, inside manual regions only (ops/collective.cpp)
// ------------------------------------

/// The device's position in its group, an S32 scalar of `graph`.
Tensor position_in(Graph& graph, const DeviceGroups& groups);
/// The sum of the group's values, on each of its devices.
Tensor all_reduce_sum(Tensor x, const DeviceGroups& groups);
/// The maximum of the group's values, on each of its devices. The gradient is divided equally among
/// the values that are the maximum.
Tensor all_reduce_max(Tensor x, const DeviceGroups& groups);
/// The group's parts concatenated along an axis, on each of its devices.
Tensor all_gather(Tensor x, const DeviceGroups& groups, Axis axis);
/// The sum of the group's values; each device gets its part of an axis.
Tensor reduce_scatter(Tensor x, const DeviceGroups& groups, Axis axis);
/// Divides `split` into one part per device of the group, sends the parts, and concatenates the
/// received ones along `concat`.
Tensor all_to_all(Tensor x, const DeviceGroups& groups, Axis split, Axis concat);
/// The value of the device `by` positions before, with the group as a ring.
Tensor ring_shift(Tensor x, const DeviceGroups& groups, int64_t by);

}  // namespace kinema
