#pragma once

// Private to the room: chunks of PNG files (ISO/IEC 15948, 5.3), without the pixels.

#include <cstddef>
#include <span>
#include <string_view>

#include "kinema/media/png_text.h"

namespace kinema::media {

/// The data of the first chunk of a type like `eXIf`; nothing where there is none, or no PNG.
std::span<const std::byte> png_chunk(std::span<const std::byte> file, std::string_view type);

/// What a chunk cICP says of the colours, by the numbers of ITU-T H.273; zeros: there is none.
struct Cicp {
  int primaries = 0;
  int transfer = 0;
};
Cicp png_cicp(std::span<const std::byte> file);

}  // namespace kinema::media
