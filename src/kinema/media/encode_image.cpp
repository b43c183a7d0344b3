// Pictures as JPEG and WebP.
#include <webp/encode.h>

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>

// After <cstdio>, which it needs.
#include <jpeglib.h>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/media/exif.h"
#include "kinema/media/image.h"

namespace kinema::media {
namespace {

constexpr int64_t kJpegSide = 65'500;  // JPEG_MAX_DIMENSION
constexpr int64_t kWebpSide = WEBP_MAX_DIMENSION;

struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf leave;
};

/// False if libjpeg fails, which leaves by longjmp: nothing here has a destructor.
bool compress(const HostArray& image, int quality, const std::string& exif, unsigned char** out,
              unsigned long* size) {  // NOLINT(google-runtime-int): libjpeg's type
  jpeg_compress_struct info{};
  JpegErrors errors{};
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = [](j_common_ptr common) {
    std::longjmp(reinterpret_cast<JpegErrors*>(common->err)->leave, 1);
  };
  errors.base.output_message = [](j_common_ptr) {};
  jpeg_create_compress(&info);
  if (setjmp(errors.leave) != 0) {
    jpeg_destroy_compress(&info);
    return false;
  }
  jpeg_mem_dest(&info, out, size);
  info.image_height = static_cast<JDIMENSION>(image.shape.dims[0]);
  info.image_width = static_cast<JDIMENSION>(image.shape.dims[1]);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  info.optimize_coding = TRUE;
  jpeg_start_compress(&info, TRUE);
  if (!exif.empty()) {
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                      static_cast<unsigned>(exif.size()));
  }
  const size_t row = static_cast<size_t>(info.image_width) * 3;
  while (info.next_scanline < info.image_height) {
    auto* line = const_cast<JSAMPLE*>(reinterpret_cast<const JSAMPLE*>(image.bytes.data())) +
                 info.next_scanline * row;
    jpeg_write_scanlines(&info, &line, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  return true;
}

std::string jpeg_of(const HostArray& image, int quality, std::span<const PngText> texts) {
  constexpr size_t kMostOfMarker = 65'533;
  std::string exif = exif_of(texts);
  if (!exif.empty()) {
    exif.insert(0, std::string_view("Exif\0\0", 6));
  }
  if (exif.size() > kMostOfMarker) {
    exif.clear();
  }
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int)
  const bool is_made = compress(image, quality, exif, &bytes, &size);
  const std::unique_ptr<unsigned char, void (*)(void*)> kept(bytes, std::free);
  check(is_made, "[image] libjpeg cannot encode {}", to_string(image.shape));
  return {reinterpret_cast<const char*>(bytes), size};
}

void append_little(std::string& to, size_t value, int bytes = 4) {
  for (int i = 0; i < bytes; ++i) {
    to += static_cast<char>(value >> (8 * i));
  }
}

/// The file with Exif data: the extended form of RFC 9649, 2.7.
std::string with_exif(const std::string& simple, const HostArray& image, const std::string& exif) {
  constexpr char kHasExif = 0x08;
  std::string body = "WEBPVP8X";
  append_little(body, 10);
  body += kHasExif;
  body += std::string(3, '\0');
  append_little(body, static_cast<size_t>(image.shape.dims[1] - 1), 3);
  append_little(body, static_cast<size_t>(image.shape.dims[0] - 1), 3);
  body += simple.substr(12) + "EXIF";
  append_little(body, exif.size());
  body += exif + std::string(exif.size() % 2, '\0');
  std::string out = "RIFF";
  append_little(out, body.size());
  return out + body;
}

std::string webp_of(const HostArray& image, int quality, std::span<const PngText> texts) {
  const auto* pixels = reinterpret_cast<const uint8_t*>(image.bytes.data());
  const auto height = static_cast<int>(image.shape.dims[0]);
  const auto width = static_cast<int>(image.shape.dims[1]);
  uint8_t* bytes = nullptr;
  const size_t size =
      quality == 100
          ? WebPEncodeLosslessRGB(pixels, width, height, width * 3, &bytes)
          : WebPEncodeRGB(pixels, width, height, width * 3, static_cast<float>(quality), &bytes);
  const std::unique_ptr<uint8_t, void (*)(void*)> kept(bytes, WebPFree);
  check(size > 12, "[image] libwebp cannot encode {}", to_string(image.shape));
  std::string out(reinterpret_cast<const char*>(bytes), size);
  const std::string exif = exif_of(texts);
  return exif.empty() ? out : with_exif(out, image, exif);
}

}  // namespace

std::string_view ending_of(ImageFormat format) {
  return format == ImageFormat::JPEG ? ".jpg" : format == ImageFormat::WEBP ? ".webp" : ".png";
}

std::string encode_image(const HostArray& image, ImageFormat format, int quality,
                         std::span<const PngText> texts) {
  const Shape& shape = image.shape;
  check(shape.dtype == DType::U8 && shape.rank() == 3 && shape.dims[2] == 3 && shape.elements() > 0,
        "[image] encode_image was given {}, u8 [h, w, 3] was expected", to_string(shape));
  check(format != ImageFormat::PNG, "[image] encode_image makes JPEG and WebP: use write_png");
  check(quality >= 1 && quality <= 100, "[image] the quality is {}, expected 1 to 100", quality);
  const int64_t side = format == ImageFormat::JPEG ? kJpegSide : kWebpSide;
  check(shape.dims[0] <= side && shape.dims[1] <= side,
        "[image] {} x {} pixels (height x width) are more than the {} a side of this format",
        shape.dims[0], shape.dims[1], side);
  return format == ImageFormat::JPEG ? jpeg_of(image, quality, texts)
                                     : webp_of(image, quality, texts);
}

void write_image(const std::filesystem::path& path, const HostArray& image, ImageFormat format,
                 int quality, std::span<const PngText> texts) {
  if (format == ImageFormat::PNG) {
    return write_png(path, image, texts);
  }
  io::AtomicFile file(path);
  file.write(encode_image(image, format, quality, texts));
  file.commit();
}

}  // namespace kinema::media
