#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kinema::media {

/// The colour behind transparent parts of a picture.
struct Background {
  /// The alpha channel is dropped: the stored colours appear, which no viewer shows.
  bool drop = false;
  std::array<uint8_t, 3> rgb{255, 255, 255};

  bool operator==(const Background&) const = default;
};

/// The values of read_background.
inline constexpr std::string_view kBackgroundWords = "white, black, grey, #rrggbb or drop";

/// `white`, `black`, `grey` (128), a colour `#rrggbb`, or `drop`. Throws an Error that lists these
/// for another value.
Background read_background(std::string_view word);
/// The inverse of read_background: `white`, `#20c0ff`.
std::string background_name(const Background& background);

/// Pixels RGBA [n, 4] over the background, RGB [n, 3]:
///
///   out = (c a + b (255 - a)) / 255, rounded
///
/// as in Pillow's alpha_composite over an opaque picture.
void put_over(const Background& background, std::span<const uint8_t> rgba, std::span<uint8_t> rgb);
/// The same with 16 bits per channel, rounded to 8 bits once, at the end.
void put_over(const Background& background, std::span<const uint16_t> rgba, std::span<uint8_t> rgb);

}  // namespace kinema::media
