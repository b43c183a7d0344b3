#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/device_groups.h"
#include "kinema/graph/graph.h"

/// Manual regions: parts of a program that are written for one device and say themselves what
/// devices send to each other, where the rest leaves that to the compiler's partitioner.
namespace kinema {

/// Where a region's values lie.
struct ManualSpec {
  /// The mesh of the program that the region will stand in.
  MeshAxes mesh;
  /// One for each input: the body sees one device's part of it. Axes that are not named hold
  /// copies.
  std::vector<Sharding> in;
  /// One for each result: the body gives one device's part. Along axes that are not named, devices
  /// must give equal values.
  std::vector<Sharding> out;
};

/// `body(parts of the inputs)` on every device; the results put together again. Tensors that the
/// body uses from outside reach it whole.
///
/// Throws an Error when sizes do not divide by the mesh axes that split them, or when an axis is
/// unknown or named twice.
std::vector<Tensor> manual(std::vector<Tensor> inputs, ManualSpec spec,
                           const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body);

// ---- For use inside manual regions (ops/collective.cpp) ------------------------------------

/// The device's position in its group, an S32 scalar of `graph`.
Tensor position_in(Graph& graph, const DeviceGroups& groups);
/// The sum, or the largest, of the group's values, to each of its devices.
Tensor all_reduce_sum(Tensor x, const DeviceGroups& groups);
/// The gradient goes to the largest values in equal shares.
Tensor all_reduce_max(Tensor x, const DeviceGroups& groups);
/// The group's parts one after the other along an axis, to each of its devices.
Tensor all_gather(Tensor x, const DeviceGroups& groups, Axis axis);
/// The sum of the group's values, of which each device gets its part of an axis.
Tensor reduce_scatter(Tensor x, const DeviceGroups& groups, Axis axis);
/// Cuts `split` into one part for each device of the group, sends them there, and puts what arrives
/// one after the other along `concat`.
Tensor all_to_all(Tensor x, const DeviceGroups& groups, Axis split, Axis concat);
/// The value of the device `by` positions before, around the group as a ring.
Tensor ring_shift(Tensor x, const DeviceGroups& groups, int64_t by);

}  // namespace kinema
