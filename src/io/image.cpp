#include "io/image.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "io/decode.h"
#include "io/resample.h"

namespace kinema::io {

HostArray read_image(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  Video video = decode(file, "png_pipe,jpeg_pipe,webp_pipe,bmp_pipe,gif", {.max_frames = 1});
  HostArray image = std::move(video.frames);
  image.shape.dims.erase(image.shape.dims.begin());
  return image;
}

HostArray resize_image(const HostArray& image, int64_t height, int64_t width) {
  const Shape& shape = image.shape;
  check(shape.dtype == DType::U8 && shape.rank() == 3 && shape.dims[2] == 3 && shape.elements() > 0,
        "[image] resize_image was given {}, u8 [h, w, 3] was expected", to_string(shape));
  const auto pixels = image.as<uint8_t>();
  const std::vector<float> in(pixels.begin(), pixels.end());
  HostArray out(Shape{DType::U8, {height, width, 3}});
  std::vector<float> scaled(out.bytes.size());
  resample(in, shape.dims[0], shape.dims[1], 3, scaled, height, width, Filter::Bicubic);
  const auto to = out.as<uint8_t>();
  for (size_t i = 0; i < scaled.size(); ++i) {
    to[i] = static_cast<uint8_t>(std::clamp(std::lround(scaled[i]), 0L, 255L));
  }
  return out;
}

}  // namespace kinema::io
