#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

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
