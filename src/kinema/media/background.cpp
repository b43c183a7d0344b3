#include "kinema/media/background.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "kinema/core/error.h"

namespace kinema::media {
namespace {

constexpr std::array<std::pair<std::string_view, Background>, 4> kNamed{{
    {"white", {.rgb = {255, 255, 255}}},
    {"black", {.rgb = {0, 0, 0}}},
    {"grey", {.rgb = {128, 128, 128}}},
    {"drop", {.drop = true}},
}};

/// `full` is the largest value of a channel.
template <typename T, uint64_t full>
void put_over_any(const Background& background, std::span<const T> rgba, std::span<uint8_t> rgb) {
  constexpr uint64_t kLevel = full / 255;  // of a channel value, per 8-bit level
  const size_t pixels = rgba.size() / 4;
  check(rgba.size() == pixels * 4 && rgb.size() == pixels * 3,
        "[image] {} values of RGBA do not make {} of RGB", rgba.size(), rgb.size());
  for (size_t i = 0; i < pixels; ++i) {
    const T* from = &rgba[i * 4];
    const uint64_t alpha = background.drop ? full : from[3];
    for (size_t c = 0; c < 3; ++c) {
      const uint64_t behind = background.rgb[c] * kLevel;
      const uint64_t sum = from[c] * alpha + behind * (full - alpha);
      rgb[i * 3 + c] = static_cast<uint8_t>((sum + full * kLevel / 2) / (full * kLevel));
    }
  }
}

}  // namespace

Background read_background(std::string_view word) {
  for (const auto& [name, background] : kNamed) {
    if (name == word) {
      return background;
    }
  }
  uint32_t number = 0;
  const char* end = word.data() + word.size();
  const bool is_colour = word.size() == 7 && word[0] == '#' &&
                         std::from_chars(word.data() + 1, end, number, 16).ptr == end;
  check(is_colour, "[image] `{}` is not a background, expected {}", word.substr(0, 60),
        kBackgroundWords);
  return {.rgb = {static_cast<uint8_t>(number >> 16), static_cast<uint8_t>(number >> 8 & 0xff),
                  static_cast<uint8_t>(number & 0xff)}};
}

std::string background_name(const Background& background) {
  for (const auto& [name, each] : kNamed) {
    if (each == background || (each.drop && background.drop)) {
      return std::string(name);
    }
  }
  const auto& [red, green, blue] = background.rgb;
  return fmt::format("#{:02x}{:02x}{:02x}", red, green, blue);
}

void put_over(const Background& background, std::span<const uint8_t> rgba, std::span<uint8_t> rgb) {
  put_over_any<uint8_t, 255>(background, rgba, rgb);
}

void put_over(const Background& background, std::span<const uint16_t> rgba,
              std::span<uint8_t> rgb) {
  put_over_any<uint16_t, 65535>(background, rgba, rgb);
}

}  // namespace kinema::media
