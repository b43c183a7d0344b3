#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kinema::mesh {

/// A device's position in the grid of its slice's network.
struct GridPlace {
  int64_t id = 0;
  std::vector<int64_t> coordinates;  ///< fastest first: core of the chip, x, y, z
};

/// The ids of a slice's devices in row-major order of a mesh with these sizes (last axis fastest),
/// such that each mesh axis takes complete grid axes: communication along it then uses links that
/// no other axis uses, and along a ring if the grid's axis is one.
///
/// The last mesh axis, which communicates most, chooses first, and takes several grid axes rather
/// than one, to use their links together. Nothing if the positions are not a complete grid, or if
/// no choice of complete axes has these sizes.
std::optional<std::vector<int64_t>> along_grid(std::span<const GridPlace> places,
                                               std::span<const int64_t> sizes);

/// The grid's sizes, fastest first, without those of 1; empty if the positions are not a complete
/// grid.
std::vector<int64_t> grid_sizes(std::span<const GridPlace> places);

}  // namespace kinema::mesh
