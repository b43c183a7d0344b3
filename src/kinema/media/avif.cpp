#include "kinema/media/avif.h"

#include <avif/avif.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/media/orientation.h"
#include "kinema/media/tone_map.h"

namespace kinema::media {
namespace {

struct Destroy {
  void operator()(avifDecoder* decoder) const { avifDecoderDestroy(decoder); }
};
using AvifDecoder = std::unique_ptr<avifDecoder, Destroy>;

void check_result(avifResult result, const AvifDecoder& decoder) {
  const char* more = decoder->diag.error;
  check(result == AVIF_RESULT_OK, "{}{}{}", avifResultToString(result), *more == '\0' ? "" : ": ",
        more);
}

/// Reads the boxes, without the pixels.
AvifDecoder opened(std::span<const std::byte> bytes, int64_t max_pixels) {
  AvifDecoder out(avifDecoderCreate());
  check(out != nullptr, "out of memory");
  out->maxThreads = 1;          // files are decoded in parallel, on the reader's threads
  out->ignoreXMP = AVIF_FALSE;  // its orientation
  out->ignoreExif = AVIF_TRUE;
  out->imageSizeLimit = static_cast<uint32_t>(
      std::clamp<int64_t>(max_pixels, 1, int64_t{AVIF_DEFAULT_IMAGE_SIZE_LIMIT}));
  // Boxes that older writers omit, and that Pillow does not require either.
  out->strictFlags &=
      ~static_cast<avifStrictFlags>(AVIF_STRICT_CLAP_VALID | AVIF_STRICT_PIXI_REQUIRED);
  check_result(avifDecoderSetIOMemory(out.get(), reinterpret_cast<const uint8_t*>(bytes.data()),
                                      bytes.size()),
               out);
  check_result(avifDecoderParse(out.get()), out);
  check(out->imageCount == 1, "it is an animation");
  return out;
}

/// The Exif orientation that is equal to the rotation `irot` (counter-clockwise), followed by the
/// mirroring `imir` (ISO/IEC 23008-12, 6.5.10 and 6.5.12).
int transform_of(const avifImage& image) {
  constexpr int kTurned[4] = {1, 8, 3, 6};
  constexpr int kTopIsBottom[4] = {4, 5, 2, 7};
  constexpr int kLeftIsRight[4] = {2, 7, 4, 5};
  const int turns = (image.transformFlags & AVIF_TRANSFORM_IROT) != 0 ? image.irot.angle & 3 : 0;
  if ((image.transformFlags & AVIF_TRANSFORM_IMIR) == 0) {
    return kTurned[turns];
  }
  return image.imir.mode == 0 ? kTopIsBottom[turns] : kLeftIsRight[turns];
}

/// The transforms, else XMP's orientation, as in Pillow.
int orientation_of(const avifImage& image) {
  const int transform = transform_of(image);
  return transform != 1 || image.xmp.size == 0
             ? transform
             : std::max(1,
                        xmp_orientation(std::as_bytes(std::span(image.xmp.data, image.xmp.size))));
}

/// With `depth` bits per channel: RGB, or RGBA with an alpha channel.
template <typename T>
std::vector<T> pixels_of(const AvifDecoder& decoder, uint32_t depth) {
  const avifImage& image = *decoder->image;
  avifRGBImage rgb;
  avifRGBImageSetDefaults(&rgb, &image);
  rgb.depth = depth;
  rgb.format = decoder->alphaPresent ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
  const size_t channels = decoder->alphaPresent ? 4 : 3;
  std::vector<T> out(size_t{image.width} * image.height * channels);
  rgb.pixels = reinterpret_cast<uint8_t*>(out.data());
  rgb.rowBytes = static_cast<uint32_t>(image.width * channels * sizeof(T));
  check_result(avifImageYUVToRGB(&image, &rgb), decoder);
  return out;
}

/// PQ or HLG: colours are tone-mapped before the background, which is SDR, is blended in.
void map_tones(const AvifDecoder& decoder, Transfer transfer, const Background& background,
               std::span<uint8_t> out) {
  const ToneMap map(transfer, decoder->image->colorPrimaries, 0);
  const std::vector<uint16_t> pixels = pixels_of<uint16_t>(decoder, 16);
  if (!decoder->alphaPresent) {
    map(pixels, out);
    return;
  }
  std::vector<uint8_t> mapped(pixels.size());
  for (size_t i = 0; i < pixels.size(); i += 4) {
    map(std::span(pixels).subspan(i, 3), std::span(mapped).subspan(i, 3));
    mapped[i + 3] = static_cast<uint8_t>((pixels[i + 3] + 128) / 257);
  }
  put_over(background, mapped, out);
}

}  // namespace

bool is_avif(std::span<const std::byte> bytes) {
  // The first box: its size, `ftyp`, the major brand, a version, and the compatible brands.
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() < 16 || text.substr(4, 4) != "ftyp") {
    return false;
  }
  const avifROData data{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  return avifPeekCompatibleFileType(&data) != AVIF_FALSE;
}

ImageSize avif_size(std::span<const std::byte> bytes, int64_t max_pixels) {
  const AvifDecoder decoder = opened(bytes, max_pixels);
  const avifImage& image = *decoder->image;
  ImageSize out{.height = image.height,
                .width = image.width,
                .has_alpha = decoder->alphaPresent != AVIF_FALSE,
                .is_hdr = transfer_of(image.transferCharacteristics) != Transfer::Standard};
  if (lies_on_its_side(orientation_of(image))) {
    std::swap(out.height, out.width);
  }
  return out;
}

HostArray decode_avif(std::span<const std::byte> bytes, int64_t max_pixels,
                      const Background& background) {
  const AvifDecoder decoder = opened(bytes, max_pixels);
  check_result(avifDecoderNextImage(decoder.get()), decoder);
  const avifImage& image = *decoder->image;
  HostArray out(Shape{DType::U8, {1, image.height, image.width, 3}});
  const auto rgb = out.as<uint8_t>();
  const Transfer transfer = transfer_of(image.transferCharacteristics);
  if (transfer != Transfer::Standard) {
    map_tones(decoder, transfer, background, rgb);
  } else {
    const std::vector<uint8_t> pixels = pixels_of<uint8_t>(decoder, 8);
    if (decoder->alphaPresent) {
      put_over(background, pixels, rgb);
    } else {
      std::ranges::copy(pixels, rgb.begin());
    }
  }
  return upright(std::move(out), orientation_of(image));
}

}  // namespace kinema::media
