#pragma once

#include <cstdint>
#include <vector>

#include "kinema/core/host_array.h"

namespace kinema::encoders {

/// Spatial tiles, in pixels, as diffusers' tiled_encode and tiled_decode have them: a video larger
/// than a tile in either direction is cut into tiles that begin `stride` apart, each is encoded or
/// decoded by itself, and where two overlap the result passes linearly from one to the other.
///
/// When a VAE joins pixels into patches (Wan 2.2), encoding counts in patches instead of pixels.
struct Tiling {
  int64_t height = 256;
  int64_t width = 256;
  int64_t stride_height = 192;
  int64_t stride_width = 192;
};

/// Throws an Error that names the nearest multiples where `what` is none of `unit`.
void check_multiple(const char* what, int64_t value, int64_t unit);
/// Throws an Error where a tile or stride is no multiple of `spatial` pixels, or tiles would not
/// touch.
void check_tiling(const Tiling& tiling, int64_t spatial);

/// Tiles along one axis, counted in cells of what is cut: [start, start + size).
struct Tile {
  int64_t start = 0;
  int64_t size = 0;
};

/// Tiles of at most `tile` cells, `stride` apart, that cover `size`.
std::vector<Tile> tiles(int64_t size, int64_t tile, int64_t stride);

/// What TileBlender is told of one axis of the result, in its own cells.
struct TileAxis {
  int64_t size = 0;    // of the whole
  int64_t stride = 0;  // from tile to tile
  int64_t blend = 0;   // how far tiles overlap
  int64_t step = 1;    // so many neighbouring cells are weighted alike (a patch of pixels)
};

/// Puts tiles f32 [c, f, h, w] together.
class TileBlender {
 public:
  TileBlender(int64_t channels, int64_t frames, const TileAxis& rows, const TileAxis& columns);

  /// Adds the tile of this row and column; rows from above, columns from the left.
  void add(int64_t row, int64_t column, HostArray tile);
  HostArray take() { return std::move(whole_); }

 private:
  TileAxis rows_;
  TileAxis columns_;
  HostArray whole_;
  std::vector<HostArray> above_;  // the last row of tiles, blended
  std::vector<HostArray> row_;    // this one
};

/// Part of a video [c, f, h, w].
HostArray cut(const HostArray& video, const Tile& rows, const Tile& columns);

/// Frames [start, start + count) of a video [c, f, h, w]; past its end the last one again.
HostArray cut_frames(const HostArray& video, int64_t start, int64_t count);

/// The frames of `piece` [c, k, h, w] in place of those of a video [c, f, h, w] from `start` on.
void put_frames(HostArray& video, const HostArray& piece, int64_t start);

}  // namespace kinema::encoders
