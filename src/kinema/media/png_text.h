#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kinema/media/image.h"

namespace kinema::media {

/// True for bytes that start like a PNG.
bool is_png(std::span<const std::byte> bytes);

/// The texts in a PNG, in the file's order: uncompressed chunks `iTXt` and `tEXt` (Latin-1,
/// converted to UTF-8). Pixels are not read. Throws an Error with `name` for other files, a
/// truncated file, and a text with a wrong checksum.
std::vector<PngText> read_png_texts(std::span<const std::byte> bytes, const std::string& name);

/// The texts of settings in a picture: those of read_png_texts, or `kinema` and `parameters` in the
/// Exif data of a JPEG or WebP. Throws an Error with `name` for other files.
std::vector<PngText> read_image_texts(std::span<const std::byte> bytes, const std::string& name);

}  // namespace kinema::media
