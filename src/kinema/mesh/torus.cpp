#include "kinema/mesh/torus.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <utility>

namespace kinema::mesh {
namespace {

/// Devices by their position in a complete grid.
struct Grid {
  std::vector<int64_t> sizes;  // fastest first
  std::vector<int64_t> ids;

  /// Nothing if a position is missing or used twice.
  static std::optional<Grid> of(std::span<const GridPlace> places) {
    if (places.empty() || places[0].coordinates.empty()) {
      return std::nullopt;
    }
    const size_t rank = places[0].coordinates.size();
    std::vector<int64_t> low = places[0].coordinates;
    std::vector<int64_t> high = low;
    for (const GridPlace& place : places) {
      if (place.coordinates.size() != rank) {
        return std::nullopt;
      }
      for (size_t a = 0; a < rank; ++a) {
        low[a] = std::min(low[a], place.coordinates[a]);
        high[a] = std::max(high[a], place.coordinates[a]);
      }
    }
    Grid grid;
    for (size_t a = 0; a < rank; ++a) {
      grid.sizes.push_back(high[a] - low[a] + 1);
    }
    std::map<int64_t, int64_t> by_place;
    for (const GridPlace& place : places) {
      int64_t at = 0;
      for (size_t a = rank; a-- > 0;) {
        at = at * grid.sizes[a] + place.coordinates[a] - low[a];
      }
      by_place.emplace(at, place.id);
    }
    int64_t product = 1;
    for (const int64_t size : grid.sizes) {
      product *= size;
    }
    if (std::ssize(by_place) != std::ssize(places) || product != std::ssize(places)) {
      return std::nullopt;
    }
    for (const auto& [at, id] : by_place) {
      grid.ids.push_back(id);
    }
    return grid;
  }

  int64_t product(uint32_t axes) const {
    int64_t out = 1;
    for (size_t a = 0; a < sizes.size(); ++a) {
      out *= (axes >> a & 1U) != 0 ? sizes[a] : 1;
    }
    return out;
  }

  /// Grid axes with more than one device.
  uint32_t used() const {
    uint32_t out = 0;
    for (size_t a = 0; a < sizes.size(); ++a) {
      out |= sizes[a] > 1 ? 1U << a : 0U;
    }
    return out;
  }
};

/// Assigns grid axes to each mesh axis, as bits; mesh axes from `count` on already have theirs.
bool assign(const Grid& grid, std::span<const int64_t> sizes, size_t count, uint32_t free,
            std::vector<uint32_t>& taken) {
  if (count == 0) {
    return free == 0;
  }
  const size_t axis = count - 1;
  if (sizes[axis] == 1) {
    return assign(grid, sizes, axis, free, taken);
  }
  std::vector<uint32_t> choices;
  for (uint32_t axes = free; axes != 0; axes = (axes - 1) & free) {
    if (grid.product(axes) == sizes[axis]) {
      choices.push_back(axes);
    }
  }
  std::ranges::sort(choices, [](uint32_t a, uint32_t b) {
    return std::pair(-std::popcount(a), a) < std::pair(-std::popcount(b), b);
  });
  return std::ranges::any_of(choices, [&](uint32_t axes) {
    taken[axis] = axes;
    return assign(grid, sizes, axis, free & ~axes, taken);
  });
}

}  // namespace

std::optional<std::vector<int64_t>> along_grid(std::span<const GridPlace> places,
                                               std::span<const int64_t> sizes) {
  const std::optional<Grid> grid = Grid::of(places);
  std::vector<uint32_t> taken(sizes.size());
  if (!grid || !assign(*grid, sizes, sizes.size(), grid->used(), taken)) {
    return std::nullopt;
  }
  std::vector<int64_t> strides(grid->sizes.size(), 1);
  for (size_t a = 1; a < strides.size(); ++a) {
    strides[a] = strides[a - 1] * grid->sizes[a - 1];
  }
  std::vector<int64_t> ids;
  for (int64_t position = 0; position < std::ssize(grid->ids); ++position) {
    int64_t rest = position;
    int64_t place = 0;
    for (size_t axis = sizes.size(); axis-- > 0;) {
      int64_t along = rest % sizes[axis];
      rest /= sizes[axis];
      for (size_t a = 0; a < strides.size(); ++a) {
        if ((taken[axis] >> a & 1U) != 0) {
          place += along % grid->sizes[a] * strides[a];
          along /= grid->sizes[a];
        }
      }
    }
    ids.push_back(grid->ids[static_cast<size_t>(place)]);
  }
  return ids;
}

std::vector<int64_t> grid_sizes(std::span<const GridPlace> places) {
  std::vector<int64_t> out;
  if (const std::optional<Grid> grid = Grid::of(places)) {
    std::ranges::copy_if(grid->sizes, std::back_inserter(out), [](int64_t n) { return n > 1; });
  }
  return out;
}

}  // namespace kinema::mesh
