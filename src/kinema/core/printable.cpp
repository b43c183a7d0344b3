#include "kinema/core/printable.h"

#include <fmt/format.h>
#include <unicode/utf8.h>

#include <iterator>

namespace kinema {
namespace {

bool is_control(UChar32 c) {
  const bool moves = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0);
  const bool turns = (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  return moves || turns;
}

}  // namespace

namespace {

/// `is_kept(i)`: whether the line break or tab at byte i stays.
template <typename IsKept>
std::string escaped(std::string_view text, const IsKept& is_kept) {
  std::string out;
  out.reserve(text.size());
  const auto size = static_cast<int32_t>(text.size());
  for (int32_t i = 0; i < size;) {
    const int32_t first = i;
    UChar32 c = 0;
    U8_NEXT(text.data(), i, size, c);
    const std::string_view bytes = text.substr(first, i - first);
    const bool is_break = c == '\n' || c == '\t';
    if (c >= 0 && !is_control(c) && (!is_break || is_kept(static_cast<size_t>(first)))) {
      out += bytes;
    } else if (c >= 0xa0) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      for (const char byte : bytes) {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) {
  return escaped(text, [](size_t) { return true; });
}

std::string printable_message(std::string_view text) {
  return escaped(
      text, [&](size_t at) { return text[at] == '\n' && text.substr(at + 1).starts_with("  "); });
}

std::string printable_line(std::string_view text) {
  return escaped(text, [](size_t) { return false; });
}

}  // namespace kinema
