#include "kinema/encoders/tiling.h"

#include <algorithm>
#include <cstring>

#include "kinema/core/error.h"

namespace kinema::encoders {
namespace {

/// Rows and columns of a video as floats, plane by plane.
struct Planes {
  explicit Planes(const HostArray& video)
      : count(video.shape.dims[0] * video.shape.dims[1]),
        h(video.shape.dims[2]),
        w(video.shape.dims[3]) {}

  size_t at(int64_t plane, int64_t y, int64_t x) const {
    return static_cast<size_t>((plane * h + y) * w + x);
  }
  int64_t count, h, w;
};

/// The weight of the later tile, `i` cells into an overlap of `blend`.
float share(int64_t i, int64_t blend, int64_t step) {
  const int64_t at = i / step;
  const int64_t steps = blend / step;
  return static_cast<float>(at) / static_cast<float>(steps);
}

enum class Along : uint8_t { ROWS, COLUMNS };

/// The first rows or columns of `after` pass from the last ones of `before`.
void blend_edges(Along along, const HostArray& before, HostArray& after, int64_t blend,
                 int64_t step) {
  const Planes a(before);
  const Planes b(after);
  const bool rows = along == Along::ROWS;
  const int64_t extent = rows ? std::min({a.h, b.h, blend}) : std::min({a.w, b.w, blend});
  const int64_t down = rows ? a.h - extent : 0;
  const int64_t right = rows ? 0 : a.w - extent;
  const auto from = before.as<float>();
  const auto to = after.as<float>();
  for (int64_t p = 0; p < b.count; ++p) {
    for (int64_t y = 0; y < (rows ? extent : b.h); ++y) {
      for (int64_t x = 0; x < (rows ? b.w : extent); ++x) {
        const float weight = share(rows ? y : x, extent, step);
        float& value = to[b.at(p, y, x)];
        value = from[a.at(p, down + y, right + x)] * (1.0F - weight) + value * weight;
      }
    }
  }
}

}  // namespace

void check_multiple(const char* what, int64_t value, int64_t unit) {
  const int64_t below = std::max(value / unit, int64_t{1}) * unit;
  check(value > 0 && value % unit == 0,
        "[encoders] {} is {}, expected a multiple of {} (the VAE's cells)\n  {} and {} work", what,
        value, unit, below, below + unit);
}

void check_tiling(const Tiling& t, int64_t spatial) {
  check_multiple("the tiles' height", t.height, spatial);
  check_multiple("the tiles' width", t.width, spatial);
  check_multiple("the tiles' stride in height", t.stride_height, spatial);
  check_multiple("the tiles' stride in width", t.stride_width, spatial);
  check(t.stride_height <= t.height && t.stride_width <= t.width,
        "[encoders] tiles of {} x {} cannot be {} x {} apart: they would not touch", t.height,
        t.width, t.stride_height, t.stride_width);
}

std::vector<Tile> tiles(int64_t size, int64_t tile, int64_t stride) {
  std::vector<Tile> out;
  for (int64_t start = 0; start < size; start += stride) {
    out.push_back({start, std::min(tile, size - start)});
  }
  return out;
}

TileBlender::TileBlender(int64_t channels, int64_t frames, const TileAxis& rows,
                         const TileAxis& columns)
    : rows_(rows),
      columns_(columns),
      whole_(Shape{DType::F32, {channels, frames, rows.size, columns.size}}) {}

void TileBlender::add(int64_t row, int64_t column, HostArray tile) {
  if (column == 0) {
    above_ = std::move(row_);
    row_.clear();
  }
  if (row > 0) {
    blend_edges(Along::ROWS, above_.at(static_cast<size_t>(column)), tile, rows_.blend, rows_.step);
  }
  if (column > 0) {
    blend_edges(Along::COLUMNS, row_.at(static_cast<size_t>(column) - 1), tile, columns_.blend,
                columns_.step);
  }
  const Planes from(tile);
  const Planes to(whole_);
  const int64_t top = row * rows_.stride;
  const int64_t left = column * columns_.stride;
  const int64_t height = std::min({from.h, rows_.stride, to.h - top});
  const int64_t width = std::min({from.w, columns_.stride, to.w - left});
  check(from.count == to.count && height > 0 && width > 0,
        "[encoders] the tile {} does not fit into {}", to_string(tile.shape),
        to_string(whole_.shape));
  for (int64_t p = 0; p < to.count; ++p) {
    for (int64_t y = 0; y < height; ++y) {
      std::copy_n(tile.as<float>().begin() + static_cast<int64_t>(from.at(p, y, 0)), width,
                  whole_.as<float>().begin() + static_cast<int64_t>(to.at(p, top + y, left)));
    }
  }
  row_.push_back(std::move(tile));
}

HostArray cut(const HostArray& video, const Tile& rows, const Tile& columns) {
  const Dims& d = video.shape.dims;
  HostArray out(Shape{video.shape.dtype, {d[0], d[1], rows.size, columns.size}});
  const Planes from(video);
  const Planes to(out);
  for (int64_t p = 0; p < to.count; ++p) {
    for (int64_t y = 0; y < to.h; ++y) {
      std::copy_n(video.as<float>().begin() +
                      static_cast<int64_t>(from.at(p, rows.start + y, columns.start)),
                  to.w, out.as<float>().begin() + static_cast<int64_t>(to.at(p, y, 0)));
    }
  }
  return out;
}

HostArray cut_frames(const HostArray& video, int64_t start, int64_t count) {
  const Dims& d = video.shape.dims;
  HostArray out(Shape{video.shape.dtype, {d[0], count, d[2], d[3]}});
  const int64_t frame = d[2] * d[3] * byte_size(video.shape.dtype);
  for (int64_t c = 0; c < d[0]; ++c) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t source = std::min(start + i, d[1] - 1);
      std::memcpy(out.bytes.data() + (c * count + i) * frame,
                  video.bytes.data() + (c * d[1] + source) * frame, static_cast<size_t>(frame));
    }
  }
  return out;
}

void put_frames(HostArray& video, const HostArray& piece, int64_t start) {
  const Dims& dims = video.shape.dims;
  const int64_t frame = video.shape.bytes() / (dims[0] * dims[1]);
  const int64_t count = piece.shape.dims[1];
  check(piece.shape.bytes() == dims[0] * count * frame && start + count <= dims[1],
        "[encoders] frames {} do not fit into {} from {} on", to_string(piece.shape),
        to_string(video.shape), start);
  for (int64_t c = 0; c < dims[0]; ++c) {
    std::copy_n(piece.bytes.begin() + c * count * frame, count * frame,
                video.bytes.begin() + (c * dims[1] + start) * frame);
  }
}

}  // namespace kinema::encoders
