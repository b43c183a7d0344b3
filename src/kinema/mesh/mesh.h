#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/emit.h"
#include "kinema/mesh/settings.h"

namespace kinema::mesh {

/// A device of a mesh: its id and its slice. Devices of one slice share a fast network (ICI,
/// NVLink); slices are connected by a slower one (DCN).
struct Device {
  int64_t id = 0;
  int64_t slice = 0;
  /// Its position in the grid of the slice's network, fastest axis first; empty if there is no
  /// grid.
  std::vector<int64_t> coordinates = {};
};

/// The devices of a program as a grid with named axes.
struct Mesh {
  MeshAxes axes;                         ///< major first, including axes of size 1
  std::vector<int64_t> device_ids = {};  ///< row-major over the axes

  int64_t devices() const { return static_cast<int64_t>(device_ids.size()); }
  /// Devices along an axis; throws an Error that lists the axes for an unknown name.
  int64_t size(std::string_view axis) const;
  /// The product over several axes; 1 for none.
  int64_t size(std::span<const std::string> names) const;
  bool has(std::string_view axis) const;
  bool operator==(const Mesh&) const = default;
};

/// The mesh for the `dcn_*` and `ici_*` settings.
///
/// If a slice's network is a grid, each mesh axis takes complete axes of it (along_grid). Without a
/// grid, or with `allow_split_physical_axes` if no complete axes fit, devices are placed in
/// row-major order of their ids. Along each axis, slices are outermost, so that only neighbours
/// across a slice's boundary communicate over the slow network. The slices are those of the
/// devices, or `compile_topology_num_slices` equal parts of them in the order of ids. A size of -1
/// is computed from the others.
///
/// Throws an Error with the remedy for more than one -1 in a network, a product that is not the
/// number of devices or slices, a -1 that has no solution, unequal slices, an unknown axis name,
/// and sizes that no complete axes of the grid have.
Mesh make_mesh(const Settings& settings, std::span<const Device> devices);

/// The VAE's separate mesh: axes `redundant` and `vae_spatial`, where `spatial` consecutive devices
/// share a frame; -1: all. Throws an Error with the valid sizes if the devices do not divide.
Mesh make_vae_mesh(int64_t spatial, std::span<const Device> devices);

/// `data=2 fsdp=4 context=1 tensor=1`
std::string axes_text(const MeshAxes& axes);

/// The divisors of `n`, in order: `1, 2, 4, 5, 8, 10, 20 or 40`.
std::string divisors_text(int64_t n);

}  // namespace kinema::mesh
