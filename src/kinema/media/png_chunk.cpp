#include "kinema/media/png_chunk.h"

#include <cstdint>
#include <cstring>

namespace kinema::media {

std::span<const std::byte> png_chunk(std::span<const std::byte> file, std::string_view type) {
  constexpr size_t kSignature = 8;
  constexpr size_t kBefore = 8;   // length and type
  constexpr size_t kAround = 12;  // plus the checksum
  if (!is_png(file)) {
    return {};
  }
  for (std::span<const std::byte> rest = file.subspan(kSignature); rest.size() >= kAround;) {
    uint32_t length = 0;  // big-endian
    for (size_t i = 0; i < 4; ++i) {
      length = length << 8 | std::to_integer<uint32_t>(rest[i]);
    }
    if (length > rest.size() - kAround) {
      return {};
    }
    if (std::memcmp(&rest[4], type.data(), 4) == 0) {
      return rest.subspan(kBefore, length);
    }
    rest = rest.subspan(kAround + length);
  }
  return {};
}

Cicp png_cicp(std::span<const std::byte> file) {
  const std::span<const std::byte> chunk = png_chunk(file, "cICP");
  if (chunk.size() < 4) {
    return {};
  }
  return {.primaries = std::to_integer<int>(chunk[0]), .transfer = std::to_integer<int>(chunk[1])};
}

}  // namespace kinema::media
