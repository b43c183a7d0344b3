#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kinema::mesh {

/// A device in the grid that its slice's network forms.
struct GridPlace {
  int64_t id = 0;
  std::vector<int64_t> coordinates;  ///< fastest first: core of the chip, x, y, z
};

/// The ids of a slice's devices row by row of a mesh of these sizes (last one fastest), so that
/// each axis of the mesh takes whole axes of the grid: what neighbours along it exchange then goes
/// over links that no other axis uses, and along a ring where the grid's axis is one.
///
/// The last axis of the mesh, which exchanges most, chooses first, and takes several axes of the
/// grid rather than one, for their links together. Nothing where the places are no full grid, or no
/// choice of whole axes has these sizes.
std::optional<std::vector<int64_t>> along_grid(std::span<const GridPlace> places,
                                               std::span<const int64_t> sizes);

/// The grid's sizes, fastest first, without those of 1; empty when the places are no full grid.
std::vector<int64_t> grid_sizes(std::span<const GridPlace> places);

}  // namespace kinema::mesh
