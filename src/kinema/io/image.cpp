#include "kinema/io/image.h"

#include "kinema/core/error.h"
#include "kinema/io/decode.h"
#include "kinema/io/jpeg.h"
#include "kinema/io/mapped_file.h"
#include "kinema/io/resample.h"
#include "kinema/io/webp.h"

namespace kinema::io {
namespace {

/// Whether a PNG or WebP holds several pictures, a PNG by a chunk `acTL` before the pixels.
bool is_animation(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.starts_with("\x89PNG")
             ? text.substr(0, text.find("IDAT")).find("acTL") != std::string_view::npos
             : is_webp_animation(bytes);
}

/// Width and height in a PNG's first chunk (ISO/IEC 15948, 11.2.2), unless an Exif chunk may turn
/// the picture, or one may make it an animation; zeros: not known.
ImageSize png_size(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() < 24 || !text.starts_with("\x89PNG") || text.substr(12, 4) != "IHDR" ||
      text.find("eXIf") != std::string_view::npos || is_animation(bytes)) {
    return {};
  }
  const auto number = [&](size_t at) {
    int64_t out = 0;
    for (size_t i = 0; i < 4; ++i) {
      out = out * 256 + static_cast<unsigned char>(text[at + i]);
    }
    return out;
  };
  return {.height = number(20), .width = number(16)};
}

}  // namespace

ImageSize measure_image(std::span<const std::byte> bytes, const std::string& name) {
  ImageSize size = png_size(bytes);
  if (size.height <= 0 || size.width <= 0) {
    const Dims dims = is_jpeg(bytes) ? jpeg_dims(bytes, name)
                      : is_webp(bytes) && !is_webp_animation(bytes)
                          ? webp_dims(bytes, name)
                          : read_image(bytes, name).shape.dims;
    size = {.height = dims[0], .width = dims[1]};
  }
  return size;
}

HostArray read_image(std::span<const std::byte> bytes, const std::string& name) {
  HostArray image;
  try {
    const ReadVideoOptions options{.max_frames = 1};
    image = is_jpeg(bytes)   ? decode_jpeg(bytes, options.max_pixels)
            : is_webp(bytes) ? decode_webp(bytes, options.max_pixels)
                             : decode(bytes, name, "png_pipe,bmp_pipe,gif", options).frames;
  } catch (const Error& error) {
    check(!is_animation(bytes),
          "[image] {} is an animation, of which no picture is read\n  save one of its pictures "
          "alone, or all of them as a GIF or mp4",
          name);
    fail("[image] {} cannot be decoded, expected a valid PNG, JPEG, WebP, BMP or GIF: {}", name,
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
