#include "kinema/media/canny.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::media {
namespace {

/// The derivatives of the channel that changes most.
struct Slope {
  int32_t dx = 0;
  int32_t dy = 0;
  int32_t size() const { return std::abs(dx) + std::abs(dy); }
};

/// Sobel derivatives at each pixel, [h w]. Beyond the edges pixels are those of the edge.
std::vector<Slope> slopes(std::span<const uint8_t> pixels, int64_t h, int64_t w) {
  std::vector<Slope> out(static_cast<size_t>(h * w));
  for (int64_t y = 0; y < h; ++y) {
    const int64_t above = std::max<int64_t>(y - 1, 0) * w;
    const int64_t below = std::min(y + 1, h - 1) * w;
    for (int64_t x = 0; x < w; ++x) {
      const int64_t left = std::max<int64_t>(x - 1, 0);
      const int64_t right = std::min(x + 1, w - 1);
      Slope& most = out[static_cast<size_t>(y * w + x)];
      for (int64_t c = 0; c < 3; ++c) {
        const auto at = [&](int64_t row, int64_t column) {
          return static_cast<int32_t>(pixels[static_cast<size_t>((row + column) * 3 + c)]);
        };
        const Slope own{
            .dx = at(above, right) - at(above, left) + 2 * (at(y * w, right) - at(y * w, left)) +
                  at(below, right) - at(below, left),
            .dy = at(below, left) - at(above, left) + 2 * (at(below, x) - at(above, x)) +
                  at(below, right) - at(above, right)};
        most = c == 0 || own.size() > most.size() ? own : most;
      }
    }
  }
  return out;
}

/// The sizes of slopes, 0 outside the picture.
class Sizes {
 public:
  Sizes(const std::vector<Slope>& slopes, int64_t h, int64_t w)
      : width_(w + 2), values_(static_cast<size_t>((h + 2) * (w + 2)), 0) {
    for (int64_t y = 0; y < h; ++y) {
      for (int64_t x = 0; x < w; ++x) {
        values_[index(y, x)] = slopes[static_cast<size_t>(y * w + x)].size();
      }
    }
  }
  int32_t at(int64_t y, int64_t x) const { return values_[index(y, x)]; }

 private:
  size_t index(int64_t y, int64_t x) const { return static_cast<size_t>((y + 1) * width_ + x + 1); }
  int64_t width_;
  std::vector<int32_t> values_;
};

/// True if the slope is largest along its own direction, of four: rows, columns, two diagonals.
bool is_ridge(const Slope& slope, const Sizes& sizes, int64_t y, int64_t x) {
  constexpr int kPlaces = 15;
  constexpr int64_t kTangent = 13573;  // tan(22.5 degrees) with 15 binary places
  const int32_t size = slope.size();
  const int64_t dx = std::abs(slope.dx);
  const int64_t dy = static_cast<int64_t>(std::abs(slope.dy)) << kPlaces;
  const int64_t flat = dx * kTangent;
  if (dy < flat) {
    return size > sizes.at(y, x - 1) && size >= sizes.at(y, x + 1);
  }
  if (dy > flat + (dx << (kPlaces + 1))) {  // tan(67.5) = tan(22.5) + 2
    return size > sizes.at(y - 1, x) && size >= sizes.at(y + 1, x);
  }
  const int64_t side = (slope.dx < 0) == (slope.dy < 0) ? 1 : -1;
  return size > sizes.at(y - 1, x - side) && size > sizes.at(y + 1, x + side);
}

}  // namespace

HostArray canny(const HostArray& picture, int64_t low, int64_t high) {
  const Dims& dims = picture.shape.dims;
  check(picture.shape.dtype == DType::U8 && dims.size() == 3 && dims[2] == 3,
        "[media] the picture is {}, expected u8[h,w,3]", to_string(picture.shape));
  if (low > high) {
    std::swap(low, high);
  }
  const int64_t h = dims[0];
  const int64_t w = dims[1];
  const std::vector<Slope> all = slopes(picture.as<uint8_t>(), h, w);
  const Sizes sizes(all, h, w);
  HostArray out(Shape{DType::U8, {h, w}});
  const auto edges = out.as<uint8_t>();
  std::vector<bool> may_continue(all.size(), false);
  std::vector<std::pair<int64_t, int64_t>> open;
  for (int64_t y = 0; y < h; ++y) {
    for (int64_t x = 0; x < w; ++x) {
      const auto i = static_cast<size_t>(y * w + x);
      if (all[i].size() <= low || !is_ridge(all[i], sizes, y, x)) {
        continue;
      }
      may_continue[i] = true;
      if (all[i].size() > high) {
        edges[i] = 255;
        open.emplace_back(y, x);
      }
    }
  }
  while (!open.empty()) {
    const auto [y, x] = open.back();
    open.pop_back();
    for (int64_t row = std::max<int64_t>(y - 1, 0); row <= std::min(y + 1, h - 1); ++row) {
      for (int64_t column = std::max<int64_t>(x - 1, 0); column <= std::min(x + 1, w - 1);
           ++column) {
        const auto i = static_cast<size_t>(row * w + column);
        if (may_continue[i] && edges[i] == 0) {
          edges[i] = 255;
          open.emplace_back(row, column);
        }
      }
    }
  }
  return out;
}

}  // namespace kinema::media
