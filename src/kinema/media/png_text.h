#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kinema/media/image.h"

namespace kinema::media {

/// True for bytes that begin as a PNG does.
bool is_png(std::span<const std::byte> bytes);

/// The texts inside a PNG, in the file's order: its chunks `iTXt` and `tEXt` (Latin-1, made UTF-8),
/// those that are compressed left out. Pixels are not read. Throws an Error that calls the file
/// `name` for what is no PNG, a file that is cut off, and a text whose checksum is another.
std::vector<PngText> read_png_texts(std::span<const std::byte> bytes, const std::string& name);

}  // namespace kinema::media
