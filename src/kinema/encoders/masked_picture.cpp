#include "kinema/encoders/masked_picture.h"

#include <algorithm>

#include "kinema/core/error.h"

namespace kinema::encoders {
namespace {

using networks::MadeOf;

/// Places of cells in latents of f frames, h rows and w columns.
struct Cells {
  int64_t frames, rows, columns;
  int64_t side;   // of a cell in pixels
  int64_t width;  // of the mask in pixels

  Cells(const PixelSizes& sizes, const Dims& latents)
      : frames(latents.at(latents.size() - 3)),
        rows(latents.at(latents.size() - 2)),
        columns(latents.back()),
        side(sizes.height / rows),
        width(sizes.width) {}

  int64_t count() const { return frames * rows * columns; }
  /// A pixel of cell i.
  size_t pixel(int64_t i, int64_t row, int64_t column) const {
    return static_cast<size_t>((i / columns % rows * side + row) * width + i % columns * side +
                               column);
  }
};

/// The pixels of each cell as channels, f32 [1, s s, f, h, w] with cells of s x s pixels.
HostArray cell_mask(std::span<const float> made, const PixelSizes& sizes, const Dims& latents) {
  const Cells cells(sizes, latents);
  const int64_t side = cells.side;
  HostArray out(Shape{DType::F32, {1, side * side, cells.frames, cells.rows, cells.columns}});
  const auto values = out.as<float>();
  for (int64_t i = 0; i < std::ssize(values); ++i) {
    const int64_t channel = i / cells.count();
    values[i] = made[cells.pixel(i % cells.count(), channel / side, channel % side)];
  }
  return out;
}

/// Rows of the batch of `kept`, with the channels of `mask` [1, ...] before or after.
HostArray joined(const HostArray& mask, const HostArray& kept, bool mask_first) {
  Dims dims = kept.shape.dims;
  const int64_t each = kept.shape.bytes() / dims[0];
  dims[1] += mask.shape.dims[1];
  HostArray out(Shape{DType::F32, dims});
  auto to = out.bytes.begin();
  for (int64_t i = 0; i < dims[0]; ++i) {
    to = mask_first ? std::ranges::copy(mask.bytes, to).out : to;
    to = std::copy_n(kept.bytes.begin() + i * each, each, to);
    to = mask_first ? to : std::ranges::copy(mask.bytes, to).out;
  }
  return out;
}

}  // namespace

HostArray kept_pixels(HostArray pixels, std::span<const float> made) {
  const auto values = pixels.as<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] *= 1.0F - made[i % made.size()];
  }
  return pixels;
}

HostArray latent_mask(std::span<const float> made, const PixelSizes& sizes, const Dims& latents) {
  const Cells cells(sizes, latents);
  HostArray out(Shape{DType::F32, {1, 1, cells.frames, cells.rows, cells.columns}});
  const auto values = out.as<float>();
  for (int64_t i = 0; i < cells.count(); ++i) {
    values[i] = made[cells.pixel(i, 0, 0)];
  }
  return out;
}

HostArray fill_channels(MadeOf made_of, std::span<const float> made, const PixelSizes& sizes,
                        const HostArray& kept) {
  const Dims& dims = kept.shape.dims;
  if (made_of == MadeOf::KEPT_AND_MASK) {
    return joined(cell_mask(made, sizes, dims), kept, /*mask_first=*/false);
  }
  check(made_of == MadeOf::MASK_AND_KEPT || made_of == MadeOf::FOLLOWED_AND_KEPT,
        "[encoders] an input of no masked picture");
  HostArray mask = latent_mask(made, sizes, dims);
  if (made_of == MadeOf::FOLLOWED_AND_KEPT) {
    for (float& value : mask.as<float>()) {
      value = 1.0F - value;
    }
  }
  return joined(mask, kept, /*mask_first=*/true);
}

}  // namespace kinema::encoders
