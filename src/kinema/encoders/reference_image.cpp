#include "kinema/encoders/reference_image.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/encoders/image_processor.h"

namespace kinema::encoders {
namespace {

/// From tall to wide.
constexpr std::array<PictureSize, 17> kSizes{{{1568, 672},
                                              {1504, 688},
                                              {1456, 720},
                                              {1392, 752},
                                              {1328, 800},
                                              {1248, 832},
                                              {1184, 880},
                                              {1104, 944},
                                              {1024, 1024},
                                              {944, 1104},
                                              {880, 1184},
                                              {832, 1248},
                                              {800, 1328},
                                              {752, 1392},
                                              {720, 1456},
                                              {688, 1504},
                                              {672, 1568}}};

double aspect(int64_t height, int64_t width) {
  return static_cast<double>(width) / static_cast<double>(height);
}

}  // namespace

PictureSize reference_size(int64_t height, int64_t width, bool resizes, int64_t unit) {
  const int64_t rows = height / unit * unit;
  const int64_t columns = width / unit * unit;
  check(rows > 0 && columns > 0,
        "[image] a reference picture is {} x {} (height x width), expected at least {} x {}",
        height, width, unit, unit);
  if (!resizes) {
    return {.height = rows, .width = columns};
  }
  const double wanted = aspect(rows, columns);
  return std::ranges::min(kSizes, {}, [&](const PictureSize& size) {
    return std::abs(wanted - aspect(size.height, size.width));
  });
}

HostArray reference_latents(const HostArray& picture, const PictureSize& size,
                            const Autoencoder& autoencoder) {
  HostArray pixels = autoencoder_pixels(picture, size.height, size.width);
  pixels.shape.dims.insert(pixels.shape.dims.begin() + 1, 1);
  return autoencoder.encode(pixels);
}

}  // namespace kinema::encoders
