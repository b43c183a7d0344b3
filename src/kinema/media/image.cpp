#include "kinema/media/image.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/file_format.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/avif.h"
#include "kinema/media/decode.h"
#include "kinema/media/jpeg.h"
#include "kinema/media/orientation.h"
#include "kinema/media/png_chunk.h"
#include "kinema/media/resample.h"
#include "kinema/media/tiff.h"
#include "kinema/media/tone_map.h"
#include "kinema/media/webp.h"

namespace kinema::media {
namespace {

constexpr int64_t kMaxPixels = ReadVideoOptions{}.max_pixels;
constexpr const char* kReadByLibav = "png_pipe,bmp_pipe,gif";

/// True for a PNG or WebP with several pictures; a PNG has a chunk for it before the pixels.
bool is_animation(std::span<const std::byte> bytes) {
  return is_png(bytes) ? !png_chunk(bytes, "acTL").empty() : is_webp_animation(bytes);
}

/// The header of a PNG (ISO/IEC 15948, 11.2.2): width, height, bit depth and colour type.
ImageSize png_size(std::span<const std::byte> bytes) {
  const std::span<const std::byte> header = png_chunk(bytes, "IHDR");
  check(header.size() >= 13, "it is corrupt");
  const auto number = [&](size_t at) {
    int64_t out = 0;
    for (size_t i = 0; i < 4; ++i) {
      out = out * 256 + std::to_integer<int64_t>(header[at + i]);
    }
    return out;
  };
  constexpr int kAlpha = 4;  // the bit of colour types with an alpha channel
  const int colour_type = std::to_integer<int>(header[9]);
  ImageSize out{.height = number(4),
                .width = number(0),
                .has_alpha = (colour_type & kAlpha) != 0 || !png_chunk(bytes, "tRNS").empty(),
                .is_hdr = transfer_of(png_cicp(bytes).transfer) != Transfer::Standard};
  check(out.height > 0 && out.width > 0, "it is corrupt");
  if (lies_on_its_side(png_orientation(bytes))) {
    std::swap(out.height, out.width);
  }
  return out;
}

/// True for a BMP with 32 bits per pixel and no masks (BI_RGB), whose fourth byte is unused.
bool has_spare_byte(std::span<const std::byte> bytes) {
  constexpr size_t kHeaders = 54;  // BITMAPFILEHEADER and BITMAPINFOHEADER
  const auto at = [&](size_t i) { return std::to_integer<int>(bytes[i]); };
  return bytes.size() > kHeaders && at(0) == 'B' && at(1) == 'M' && at(28) == 32 && at(29) == 0 &&
         at(30) == 0 && at(31) == 0 && at(32) == 0 && at(33) == 0;
}

/// The same BMP with opaque pixels: libav reads the unused byte as alpha.
std::vector<std::byte> opaque(std::span<const std::byte> bytes) {
  std::vector<std::byte> out(bytes.begin(), bytes.end());
  size_t pixels = 0;  // their offset, little-endian
  for (size_t i = 0; i < 4; ++i) {
    pixels |= std::to_integer<size_t>(bytes[10 + i]) << (8 * i);
  }
  for (size_t i = pixels + 3; i < out.size(); i += 4) {
    out[i] = std::byte{0xff};
  }
  return out;
}

ImageSize measured(std::span<const std::byte> bytes, const std::string& name) {
  check(!is_animation(bytes), "it is an animation");
  if (is_jpeg(bytes)) {
    return jpeg_size(bytes);
  }
  if (is_png(bytes)) {
    return png_size(bytes);
  }
  if (is_webp(bytes)) {
    return webp_size(bytes);
  }
  if (is_avif(bytes)) {
    return avif_size(bytes, kMaxPixels);
  }
  if (is_tiff(bytes)) {
    return tiff_size(bytes);
  }
  const Video picture = decode(bytes, name, kReadByLibav, {.max_frames = 1});
  const Dims& dims = picture.frames.shape.dims;
  return {.height = dims[1],
          .width = dims[2],
          .has_alpha = picture.has_alpha && !has_spare_byte(bytes),
          .is_hdr = false};
}

HostArray decoded(std::span<const std::byte> bytes, const std::string& name,
                  const Background& background) {
  if (is_jpeg(bytes)) {
    return decode_jpeg(bytes, kMaxPixels);
  }
  if (is_webp(bytes)) {
    return decode_webp(bytes, kMaxPixels, background);
  }
  if (is_avif(bytes)) {
    return decode_avif(bytes, kMaxPixels, background);
  }
  if (is_tiff(bytes)) {
    return decode_tiff(bytes, kMaxPixels, background);
  }
  const std::vector<std::byte> bmp =
      has_spare_byte(bytes) ? opaque(bytes) : std::vector<std::byte>();
  return decode(bmp.empty() ? bytes : std::span<const std::byte>(bmp), name, kReadByLibav,
                {.max_frames = 1, .background = background})
      .frames;
}

bool is_video(std::span<const std::byte> bytes, const std::string& name) {
  try {
    return probe_video(bytes, name).frames > 0;
  } catch (const Error&) {
    return false;
  }
}

/// Calls `read`; its Errors get the image's name.
template <typename Read>
auto with_name(std::span<const std::byte> bytes, const std::string& name, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    const io::FileFormat format = io::file_format(bytes);
    check(is_image(bytes) || !format || format.is_media, "[image] {}",
          io::wrong_format_text(name, format, "a picture that kinema reads"));
    check(is_image(bytes) || !is_video(bytes, name), "[image] {} is a video, expected a picture",
          name);
    check(!is_animation(bytes) && error.what() != std::string_view("it is an animation"),
          "[image] {} is an animation, expected a single picture\n  save one of its pictures, "
          "or all of them as a GIF or mp4",
          name);
    fail(
        "[image] {} cannot be decoded, expected a valid PNG, JPEG, WebP, AVIF, TIFF, BMP or GIF: "
        "{}",
        name, error.what());
  }
}

}  // namespace

bool is_image(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return is_png(bytes) || is_jpeg(bytes) || is_webp(bytes) || is_avif(bytes) || is_tiff(bytes) ||
         text.starts_with("BM");
}

ImageSize measure_image(std::span<const std::byte> bytes, const std::string& name) {
  return with_name(bytes, name, [&] { return measured(bytes, name); });
}

HostArray read_image(std::span<const std::byte> bytes, const std::string& name,
                     const Background& background) {
  HostArray image = with_name(bytes, name, [&] { return decoded(bytes, name, background); });
  image.shape.dims.erase(image.shape.dims.begin());
  return image;
}

HostArray read_image(const std::filesystem::path& path, const Background& background) {
  const io::MappedFile file = io::MappedFile::open(path);
  HostArray image = read_image(file.bytes(), file.path(), background);
  file.check_intact();
  return image;
}

HostArray resize_image(const HostArray& image, int64_t height, int64_t width, Filter filter,
                       Rounding rounding) {
  const Shape& shape = image.shape;
  check(shape.dtype == DType::U8 && shape.rank() == 3 && shape.dims[2] == 3 && shape.elements() > 0,
        "[image] resize_image was given {}, u8 [h, w, 3] was expected", to_string(shape));
  HostArray out(Shape{DType::U8, {height, width, 3}});
  resample(image.as<uint8_t>(), shape.dims[0], shape.dims[1], 3, out.as<uint8_t>(), height, width,
           filter, rounding);
  return out;
}

}  // namespace kinema::media
