#include "kinema/text/char_map.h"

#include <cstring>

#include "kinema/core/error.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

// A unit of the double array (Darts-clone): bit 31 marks a value, bit 8 that a value follows, bits
// 0-7 the byte that leads here, bits 10-30 the distance to the children, in units or, with bit 9,
// in 256 units.
bool has_value(uint32_t unit) { return (unit >> 8 & 1U) != 0; }
uint32_t label(uint32_t unit) { return unit & 0x800000ffU; }
uint32_t offset(uint32_t unit) { return unit >> 10 << ((unit & (1U << 9)) >> 6); }
uint32_t value(uint32_t unit) { return unit & 0x7fffffffU; }

/// Longer graphemes are looked up character by character.
constexpr size_t kWholeGrapheme = 6;

}  // namespace

CharMap::CharMap(std::string_view bytes) {
  if (bytes.empty()) {
    return;
  }
  uint32_t size = 0;
  check(bytes.size() >= sizeof(size), "[text] the normalisation map has {} bytes", bytes.size());
  std::memcpy(&size, bytes.data(), sizeof(size));
  bytes.remove_prefix(sizeof(size));
  check(size <= bytes.size() && size % sizeof(uint32_t) == 0 && size > 0,
        "[text] the normalisation map gives {} bytes of trie in {} bytes", size, bytes.size());
  units_.resize(size / sizeof(uint32_t));
  std::memcpy(units_.data(), bytes.data(), size);
  replacements_ = bytes.substr(size);
  check(invalid_utf8_at(replacements_) == std::string_view::npos,
        "[text] the normalisation map holds text that is not UTF-8");
}

std::optional<std::string_view> CharMap::find(std::string_view text) const {
  uint32_t at = offset(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    at ^= byte;
    if (byte == 0 || at >= units_.size() || label(units_[at]) != byte) {
      break;
    }
    const uint32_t unit = units_[at];
    at ^= offset(unit);
    if (has_value(unit)) {
      if (at >= units_.size() || value(units_[at]) >= replacements_.size()) {
        break;
      }
      const std::string_view rest = std::string_view(replacements_).substr(value(units_[at]));
      return rest.substr(0, rest.find('\0'));
    }
  }
  return std::nullopt;
}

std::string CharMap::normalize(std::string_view text) const {
  if (units_.empty()) {
    return std::string(text);
  }
  std::string out;
  out.reserve(text.size());
  size_t start = 0;
  for (const size_t end : grapheme_ends(text)) {
    const std::string_view grapheme = text.substr(start, end - start);
    start = end;
    if (grapheme.size() < kWholeGrapheme) {
      if (const auto replacement = find(grapheme)) {
        out += *replacement;
        continue;
      }
    }
    for (size_t i = 0; i < grapheme.size();) {
      size_t next = i;
      next_code_point(grapheme, next);
      const std::string_view character = grapheme.substr(i, next - i);
      out += find(character).value_or(character);
      i = next;
    }
  }
  return out;
}

}  // namespace kinema::text
