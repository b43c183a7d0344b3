#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/media/background.h"
#include "kinema/media/resample.h"

namespace kinema::media {

/// Reads a PNG, JPEG, WebP, AVIF, TIFF, BMP or GIF image as u8 [h, w, 3], RGB, upright by its Exif
/// orientation (for AVIF, its boxes). Transparent parts show the background; PQ and HLG (AVIF, and
/// a PNG's chunk cICP) are tone-mapped to SDR. Throws an Error with the path; animations in PNG,
/// WebP and AVIF and TIFFs of several pages are not supported.
HostArray read_image(const std::filesystem::path& path, const Background& background = {});
/// The same from bytes, with the name `name` in messages.
HostArray read_image(std::span<const std::byte> bytes, const std::string& name,
                     const Background& background = {});

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool has_alpha = false;  // an alpha channel, or a transparent colour
  bool is_hdr = false;     // PQ or HLG
};
/// The result size of read_image; decodes BMP and GIF only.
ImageSize measure_image(std::span<const std::byte> bytes, const std::string& name);

/// True if the bytes start like an image that read_image supports; GIFs are videos.
bool is_image(std::span<const std::byte> bytes);

/// A text in a PNG, in a chunk `iTXt`.
struct PngText {
  std::string keyword;  // 1 to 79 Latin-1 characters: `parameters`
  std::string text;     // UTF-8
};

/// Writes u8 [h, w, 3] as PNG, to a temporary name that is then renamed.
void write_png(const std::filesystem::path& path, const HostArray& image,
               std::span<const PngText> texts = {});

enum class ImageFormat : uint8_t { PNG, JPEG, WEBP };
/// `.png`, `.jpg` or `.webp`.
std::string_view ending_of(ImageFormat format);

/// u8 [h, w, 3] as the bytes of a JPEG or WebP of this `quality`, 1 to 100; a WebP of quality 100
/// is lossless. The text `parameters` becomes the Exif UserComment, where AUTOMATIC1111's web UI
/// has it, and `kinema` the Exif ImageDescription; both are left out of a JPEG if they have more
/// than 65 kB. Throws an Error for another shape, and for more pixels than the format takes.
std::string encode_image(const HostArray& image, ImageFormat format, int quality,
                         std::span<const PngText> texts = {});

/// write_png, or the bytes of encode_image.
void write_image(const std::filesystem::path& path, const HostArray& image, ImageFormat format,
                 int quality, std::span<const PngText> texts = {});

/// u8 [h, w, 3] resized, with the same bytes as PIL (or torchvision): with antialiasing when it is
/// reduced.
HostArray resize_image(const HostArray& image, int64_t height, int64_t width,
                       Filter filter = Filter::Bicubic, Rounding rounding = Rounding::PIL);

struct ContactSheetOptions {
  int64_t columns = 4;
  /// Number of evenly spaced frames shown for each video; all if larger.
  int64_t frames_per_video = 5;
  /// Each pixel becomes a block of this many pixels per side.
  int64_t enlarge = 1;
};

/// Composes videos (u8 [f, h, w, 3] each, one size) into one image: each cell is a row of frames,
/// with a label under it if labels are given (one per video).
HostArray contact_sheet(std::span<const HostArray> videos, std::span<const std::string> labels = {},
                        const ContactSheetOptions& options = {});

}  // namespace kinema::media
