#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kinema::media {

/// What is seen through the transparent parts of a picture.
struct Background {
  /// The alpha channel is dropped: the colours that are stored there are seen, which no viewer
  /// shows.
  bool drop = false;
  std::array<uint8_t, 3> rgb{255, 255, 255};

  bool operator==(const Background&) const = default;
};

/// The words that read_background knows beside `#rrggbb`.
inline constexpr std::string_view kBackgroundWords = "white, black, grey, #rrggbb or drop";

/// `white`, `black`, `grey` (128), a colour `#rrggbb`, or `drop`. Throws an Error that lists these
/// for another word.
Background read_background(std::string_view word);
/// As read_background takes it: `white`, `#20c0ff`.
std::string background_name(const Background& background);

/// Pixels RGBA [n, 4] over the background, RGB [n, 3]:
///
///   out = (c a + b (255 - a)) / 255, rounded
///
/// as Pillow's alpha_composite has it over an opaque picture.
void put_over(const Background& background, std::span<const uint8_t> rgba, std::span<uint8_t> rgb);
/// The same of 16 bits a channel, rounded to 8 bits once, at the end.
void put_over(const Background& background, std::span<const uint16_t> rgba, std::span<uint8_t> rgb);

}  // namespace kinema::media
