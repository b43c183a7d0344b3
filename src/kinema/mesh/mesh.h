#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/emit.h"
#include "kinema/mesh/settings.h"

namespace kinema::mesh {

/// A device as the mesh sees it: which one, and which slice it belongs to. Devices of one slice
/// share a fast network (ICI, NVLink); slices are joined by a slower one (DCN).
struct Device {
  int64_t id = 0;
  int64_t slice = 0;
  /// Its place in the grid of the slice's network, fastest axis first; empty where it has none.
  std::vector<int64_t> coordinates = {};
};

/// The devices of a program as a grid with named axes.
struct Mesh {
  MeshAxes axes;                         ///< major first, axes of size 1 included
  std::vector<int64_t> device_ids = {};  ///< row-major over the axes

  int64_t devices() const { return static_cast<int64_t>(device_ids.size()); }
  /// Devices along an axis; throws an Error that lists the axes when there is none of this name.
  int64_t size(std::string_view axis) const;
  /// The product over several axes; 1 for none.
  int64_t size(std::span<const std::string> names) const;
  bool has(std::string_view axis) const;
  bool operator==(const Mesh&) const = default;
};

/// The mesh that `dcn_*` and `ici_*` ask for.
///
/// Within a slice whose network is a grid, each axis takes whole axes of it (along_grid); without a
/// grid, and with `allow_split_physical_axes` where no whole axes fit, devices are placed row by
/// row in the order of their ids. Along each axis, slices are outermost, so that only neighbours
/// across a slice's edge talk over the slow network. The slices are those of the devices, or
/// `compile_topology_num_slices` equal parts of them in the order of ids. A size of -1 takes what
/// the others leave.
///
/// Throws an Error with the remedy for more than one -1 in a network, a product that is not the
/// number of devices or slices, a -1 that cannot be filled, unequal slices, an unknown axis name,
/// sizes that no whole axes of a grid have.
Mesh make_mesh(const Settings& settings, std::span<const Device> devices);

/// The VAE's own mesh: axes `redundant` and `vae_spatial`, where `spatial` devices in a row share a
/// frame; -1: all. Throws an Error with the sizes that work when the devices do not divide so.
Mesh make_vae_mesh(int64_t spatial, std::span<const Device> devices);

/// `data=2 fsdp=4 context=1 tensor=1`
std::string axes_text(const MeshAxes& axes);

/// The numbers that divide `n`, in order: `1, 2, 4, 5, 8, 10, 20 or 40`.
std::string divisors_text(int64_t n);

}  // namespace kinema::mesh
