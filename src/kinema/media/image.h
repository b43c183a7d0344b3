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

/// Reads a PNG, JPEG, WebP, AVIF, TIFF, BMP or GIF image as u8 [h, w, 3], RGB, upright as Exif (of
/// AVIF its boxes) says. What is transparent shows the background; PQ and HLG (AVIF, a PNG's chunk
/// cICP) are tone-mapped to SDR. Throws an Error with the path; animations in PNG, WebP and AVIF
/// and TIFFs of several pages are not read.
HostArray read_image(const std::filesystem::path& path, const Background& background = {});
/// The same from bytes, which messages call `name`.
HostArray read_image(std::span<const std::byte> bytes, const std::string& name,
                     const Background& background = {});

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool has_alpha = false;  // an alpha channel, or a transparent colour
  bool is_hdr = false;     // PQ or HLG
};
/// What read_image would give; of all but BMP and GIF without decoding.
ImageSize measure_image(std::span<const std::byte> bytes, const std::string& name);

/// Whether the bytes begin as those of an image do that read_image reads; GIFs count as videos.
bool is_image(std::span<const std::byte> bytes);

/// A text inside a PNG, as its chunk `iTXt` has it.
struct PngText {
  std::string keyword;  // 1 to 79 of Latin-1's characters: `parameters`
  std::string text;     // UTF-8
};

/// Writes u8 [h, w, 3] as PNG, beside `path` and then renamed.
void write_png(const std::filesystem::path& path, const HostArray& image,
               std::span<const PngText> texts = {});

/// u8 [h, w, 3] scaled to the given size, byte by byte as PIL does it: with antialiasing when it
/// gets smaller.
HostArray resize_image(const HostArray& image, int64_t height, int64_t width,
                       Filter filter = Filter::Bicubic);

struct ContactSheetOptions {
  int64_t columns = 4;
  /// Frames shown of each video, evenly spread; all when larger.
  int64_t frames_per_video = 5;
  /// Each pixel becomes a block of this many pixels a side.
  int64_t enlarge = 1;
};

/// Composes videos (u8 [f, h, w, 3] each, one size) into one image: each cell a row of frames, with
/// the label under it when labels are given (one a video).
HostArray contact_sheet(std::span<const HostArray> videos, std::span<const std::string> labels = {},
                        const ContactSheetOptions& options = {});

}  // namespace kinema::media
