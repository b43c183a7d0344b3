#pragma once

// Private to the module: settings in the Exif data of a JPEG or WebP.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kinema/media/image.h"

namespace kinema::media {

/// Exif data (TIFF, big-endian) with the texts `kinema`, as ImageDescription, and `parameters`, as
/// UserComment in UTF-16. Empty without such texts.
std::string exif_of(std::span<const PngText> texts);

/// The same texts of Exif data, which may be anyone's; those that are damaged are left out.
std::vector<PngText> texts_of_exif(std::span<const std::byte> exif);

/// The Exif data of a JPEG or WebP; empty: none, or another file.
std::span<const std::byte> find_exif(std::span<const std::byte> file);

}  // namespace kinema::media
