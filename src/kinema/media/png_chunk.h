#pragma once

// Private to the module: chunks of PNG files (ISO/IEC 15948, 5.3), without the pixels.

#include <cstddef>
#include <span>
#include <string_view>

#include "kinema/media/png_text.h"

namespace kinema::media {

/// The data of the first chunk of a type like `eXIf`; empty if there is none, or for other files.
std::span<const std::byte> png_chunk(std::span<const std::byte> file, std::string_view type);

/// The colours in a chunk cICP, as numbers of ITU-T H.273; zeros if there is none.
struct Cicp {
  int primaries = 0;
  int transfer = 0;
};
Cicp png_cicp(std::span<const std::byte> file);

}  // namespace kinema::media
