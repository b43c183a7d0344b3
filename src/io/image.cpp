#include "io/image.h"

#include "core/error.h"
#include "io/decode.h"
#include "io/jpeg.h"
#include "io/mapped_file.h"
#include "io/resample.h"

namespace kinema::io {

HostArray read_image(std::span<const std::byte> bytes, const std::string& name) {
  HostArray image;
  try {
    const ReadVideoOptions options{.max_frames = 1};
    image = is_jpeg(bytes) ? decode_jpeg(bytes, options.max_pixels)
                           : decode(bytes, name, "png_pipe,webp_pipe,bmp_pipe,gif", options).frames;
  } catch (const Error& error) {
    fail("[image] {} cannot be decoded, expected a sound PNG, JPEG, WebP, BMP or GIF: {}", name,
         error.what());
  }
  image.shape.dims.erase(image.shape.dims.begin());
  return image;
}

HostArray read_image(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  HostArray image = read_image(file.bytes(), file.path());
  file.check_intact();
  return image;
}

HostArray resize_image(const HostArray& image, int64_t height, int64_t width, Filter filter) {
  const Shape& shape = image.shape;
  check(shape.dtype == DType::U8 && shape.rank() == 3 && shape.dims[2] == 3 && shape.elements() > 0,
        "[image] resize_image was given {}, u8 [h, w, 3] was expected", to_string(shape));
  HostArray out(Shape{DType::U8, {height, width, 3}});
  resample(image.as<uint8_t>(), shape.dims[0], shape.dims[1], 3, out.as<uint8_t>(), height, width,
           filter);
  return out;
}

}  // namespace kinema::io
