#include "kinema/media/webp.h"

#include <webp/decode.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/media/orientation.h"

namespace kinema::media {
namespace {

constexpr size_t kFileHeader = 12;  // RIFF, the size, WEBP
constexpr size_t kChunkHeader = 8;

const uint8_t* data_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

std::string_view reason(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return "it takes more memory than there is";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "it has features that libwebp does not know";
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "it is cut short";
    default:
      return "it is corrupt";
  }
}

WebPBitstreamFeatures features_of(std::span<const std::byte> bytes) {
  WebPBitstreamFeatures out{};
  const VP8StatusCode status = WebPGetFeatures(data_of(bytes), bytes.size(), &out);
  check(status == VP8_STATUS_OK, "{}", reason(status));
  return out;
}

/// The orientation in the chunk EXIF, which follows the picture (RFC 9649, 2.7); without one,
/// XMP's.
int orientation_of(std::span<const std::byte> bytes) {
  constexpr std::string_view kMarker{"Exif\0\0", 6};  // that some writers put before the block
  int exif = 0;
  int xmp = 0;
  for (size_t at = kFileHeader; at + kChunkHeader <= bytes.size();) {
    uint32_t size = 0;  // little-endian
    for (size_t i = 0; i < 4; ++i) {
      size |= static_cast<uint32_t>(bytes[at + 4 + i]) << (8 * i);
    }
    const std::span<const std::byte> rest = bytes.subspan(at + kChunkHeader);
    if (size > rest.size()) {
      break;
    }
    if (std::memcmp(&bytes[at], "EXIF", 4) == 0) {
      std::span<const std::byte> block = rest.first(size);
      if (size >= kMarker.size() &&
          std::memcmp(block.data(), kMarker.data(), kMarker.size()) == 0) {
        block = block.subspan(kMarker.size());
      }
      exif = exif_orientation(block);
    } else if (std::memcmp(&bytes[at], "XMP ", 4) == 0) {
      xmp = xmp_orientation(rest.first(size));
    }
    at += kChunkHeader + size + size % 2;
  }
  return exif != 0 ? exif : std::max(1, xmp);
}

}  // namespace

bool is_webp(std::span<const std::byte> bytes) {
  return bytes.size() >= kFileHeader && std::memcmp(bytes.data(), "RIFF", 4) == 0 &&
         std::memcmp(&bytes[8], "WEBP", 4) == 0;
}

bool is_webp_animation(std::span<const std::byte> bytes) {
  WebPBitstreamFeatures features{};
  // The header of a corrupt file may still be readable.
  WebPGetFeatures(data_of(bytes), bytes.size(), &features);
  return is_webp(bytes) && features.has_animation != 0;
}

ImageSize webp_size(std::span<const std::byte> bytes) {
  const WebPBitstreamFeatures features = features_of(bytes);
  ImageSize out{.height = features.height,
                .width = features.width,
                .has_alpha = features.has_alpha != 0,
                .is_hdr = false};
  if (lies_on_its_side(orientation_of(bytes))) {
    std::swap(out.height, out.width);
  }
  return out;
}

HostArray decode_webp(std::span<const std::byte> bytes, int64_t max_pixels,
                      const Background& background) {
  const WebPBitstreamFeatures features = features_of(bytes);
  check(features.has_animation == 0, "it is an animation");
  check(int64_t{features.height} * features.width <= max_pixels,
        "it has {} x {} pixels (height x width), at most {} are read", features.height,
        features.width, max_pixels);
  const bool blends = features.has_alpha != 0 && !background.drop;
  const int channels = blends ? 4 : 3;
  HostArray out(Shape{DType::U8, {1, features.height, features.width, 3}});
  std::vector<uint8_t> rgba;
  uint8_t* pixels = reinterpret_cast<uint8_t*>(out.bytes.data());
  size_t size = out.bytes.size();
  if (blends) {
    rgba.resize(size / 3 * 4);
    pixels = rgba.data();
    size = rgba.size();
  }
  WebPDecoderConfig config;
  check(WebPInitDecoderConfig(&config) != 0, "libwebp is another than this was built for");
  config.output.colorspace = blends ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {.rgba = pixels, .stride = channels * features.width, .size = size};
  const VP8StatusCode status = WebPDecode(data_of(bytes), bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  check(status == VP8_STATUS_OK, "{}", reason(status));
  if (blends) {
    put_over(background, rgba, out.as<uint8_t>());
  }
  return upright(std::move(out), orientation_of(bytes));
}

}  // namespace kinema::media
