#pragma once

#include <cstdint>
#include <vector>

#include "kinema/core/host_array.h"

namespace kinema::encoders {

/// Spatial tiles, in pixels, as in diffusers' tiled_encode and tiled_decode: a video larger than a
/// tile in either direction is divided into tiles at a distance of `stride`. Each is encoded or
/// decoded separately, and overlaps are blended linearly.
///
/// For a VAE that joins pixels into patches (Wan 2.2), encoding uses patches as the unit instead of
/// pixels.
struct Tiling {
  int64_t height = 256;
  int64_t width = 256;
  int64_t stride_height = 192;
  int64_t stride_width = 192;
};

/// Throws an Error with the nearest multiples if `value` is not a multiple of `unit`.
void check_multiple(const char* what, int64_t value, int64_t unit);
/// Throws an Error if a tile or stride is not a multiple of `spatial` pixels, or if tiles would not
/// touch.
void check_tiling(const Tiling& tiling, int64_t spatial);

/// A tile's range on one axis, in cells: [start, start + size).
struct Tile {
  int64_t start = 0;
  int64_t size = 0;
};

/// Tiles of at most `tile` cells at a distance of `stride`, which cover `size`.
std::vector<Tile> tiles(int64_t size, int64_t tile, int64_t stride);

/// TileBlender's parameters of one axis of the result, in cells of the result.
struct TileAxis {
  int64_t size = 0;    // of the complete axis
  int64_t stride = 0;  // distance of the tiles
  int64_t blend = 0;   // overlap of neighbouring tiles
  int64_t step = 1;    // neighbouring cells with the same weight (a patch of pixels)
};

/// Joins tiles f32 [c, f, h, w].
class TileBlender {
 public:
  TileBlender(int64_t channels, int64_t frames, const TileAxis& rows, const TileAxis& columns);

  /// Adds the tile of this row and column; call it row by row, from top left.
  void add(int64_t row, int64_t column, HostArray tile);
  HostArray take() { return std::move(whole_); }

 private:
  TileAxis rows_;
  TileAxis columns_;
  HostArray whole_;
  std::vector<HostArray> above_;  // the previous row of tiles, blended
  std::vector<HostArray> row_;    // the current row
};

/// A tile of a video [c, f, h, w].
HostArray cut(const HostArray& video, const Tile& rows, const Tile& columns);

/// Frames [start, start + count) of a video [c, f, h, w]; the last frame is repeated past the end.
HostArray cut_frames(const HostArray& video, int64_t start, int64_t count);

/// Overwrites the frames of a video [c, f, h, w] from `start` with those of `piece` [c, k, h, w].
void put_frames(HostArray& video, const HostArray& piece, int64_t start);

}  // namespace kinema::encoders
