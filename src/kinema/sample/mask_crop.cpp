#include "kinema/sample/mask_crop.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/media/blur.h"
#include "kinema/media/image.h"

namespace kinema::sample {
namespace {

/// An interval [first, last) of rows or columns.
struct Interval {
  int64_t first, last;
  int64_t size() const { return last - first; }
};

/// Grows to `wanted` on both sides, inside [0, limit).
Interval widened(Interval given, double wanted, int64_t limit) {
  const auto more = static_cast<int64_t>(wanted - static_cast<double>(given.size()));
  given.first -= more / 2;
  given.last += more - more / 2;
  if (given.last >= limit) {
    given.first -= given.last - limit;
    given.last = limit;
  }
  if (given.first < 0) {
    given.last -= given.first;
    given.first = 0;
  }
  return {given.first, std::min(given.last, limit)};
}

}  // namespace

CropRegion crop_region(const HostArray& mask, int64_t height, int64_t width, int64_t padding) {
  const int64_t h = mask.shape.dims.at(0);
  const int64_t w = mask.shape.dims.at(1);
  Interval rows{h, 0};
  Interval columns{w, 0};
  const auto values = mask.as<uint8_t>();
  for (int64_t i = 0; i < h * w; ++i) {
    if (values[static_cast<size_t>(i)] != 0) {
      rows = {std::min(rows.first, i / w), std::max(rows.last, i / w + 1)};
      columns = {std::min(columns.first, i % w), std::max(columns.last, i % w + 1)};
    }
  }
  check(rows.last > 0, "[sample] the mask is black: no part of the picture is to be made");
  const auto padded = [&](const Interval& given, int64_t limit) {
    return Interval{std::max<int64_t>(given.first - padding, 0),
                    std::min(given.last + padding, limit)};
  };
  rows = padded(rows, h);
  columns = padded(columns, w);
  const double own = static_cast<double>(columns.size()) / static_cast<double>(rows.size());
  const double wanted = static_cast<double>(width) / static_cast<double>(height);
  if (own > wanted) {
    rows = widened(rows, static_cast<double>(columns.size()) / wanted, h);
  } else {
    columns = widened(columns, static_cast<double>(rows.size()) * wanted, w);
  }
  return {.left = columns.first, .top = rows.first, .width = columns.size(), .height = rows.size()};
}

HostArray cropped(const HostArray& picture, const CropRegion& region) {
  Shape shape = picture.shape;
  const int64_t pixel = shape.rank() == 3 ? shape.dims[2] : 1;
  const int64_t row = shape.dims.at(1) * pixel;
  shape.dims[0] = region.height;
  shape.dims[1] = region.width;
  HostArray out(shape);
  auto to = out.bytes.begin();
  for (int64_t i = 0; i < region.height; ++i) {
    const auto from = picture.bytes.begin() + (region.top + i) * row + region.left * pixel;
    to = std::copy_n(from, region.width * pixel, to);
  }
  return out;
}

HostArray put_back(const MaskCrop& crop, const HostArray& made) {
  const CropRegion& region = crop.region;
  const HostArray resized =
      media::resize_image(made, region.height, region.width, media::Filter::Lanczos);
  const int64_t height = crop.mask.shape.dims[0];
  const int64_t width = crop.mask.shape.dims[1];
  std::vector<float> parts(crop.mask.bytes.size());
  std::ranges::transform(crop.mask.as<uint8_t>(), parts.begin(),
                         [](uint8_t level) { return static_cast<float>(level) / 255.0F; });
  if (crop.blur > 0.0) {
    parts = media::gaussian_blur(parts, height, width, crop.blur);
  }
  HostArray out = crop.picture;
  const auto to = out.as<uint8_t>();
  const auto from = resized.as<uint8_t>();
  for (int64_t y = 0; y < region.height; ++y) {
    for (int64_t x = 0; x < region.width; ++x) {
      const auto place = static_cast<size_t>((region.top + y) * width + region.left + x);
      const auto source = static_cast<size_t>(y * region.width + x);
      for (size_t c = 0; c < 3; ++c) {
        const float part = parts[place];
        to[3 * place + c] = static_cast<uint8_t>(
            std::lround(part * static_cast<float>(from[3 * source + c]) +
                        (1.0F - part) * static_cast<float>(to[3 * place + c])));
      }
    }
  }
  return out;
}

}  // namespace kinema::sample
