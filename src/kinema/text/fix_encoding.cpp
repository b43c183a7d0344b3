#include "kinema/text/fix_encoding.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "kinema/text/code_page.h"
#include "kinema/text/mojibake.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

constexpr size_t kMacRoman = 8;  // in code_pages()

unsigned char byte_at(std::string_view bytes, size_t i) {
  return static_cast<unsigned char>(bytes[i]);
}

/// One byte of a pattern: a range from `first` to `last`, or one of `also`.
struct Bytes {
  unsigned char first = 1;
  unsigned char last = 0;
  std::string_view also = {};

  bool holds(char c) const {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= first && byte <= last) || also.find(c) != std::string_view::npos;
  }
};

/// Up to five consecutive bytes.
struct Pattern {
  std::array<Bytes, 5> bytes;
  size_t length;

  bool fits(std::string_view text, size_t start) const {
    if (length > text.size() - start) {
      return false;
    }
    for (size_t i = 0; i < length; ++i) {
      if (!bytes[i].holds(text[start + i])) {
        return false;
      }
    }
    return true;
  }
};

/// The length of the first pattern that matches at `start`; 0 if none does.
size_t length_of_first(std::span<const Pattern> patterns, std::string_view text, size_t start) {
  for (const Pattern& pattern : patterns) {
    if (pattern.fits(text, start)) {
      return pattern.length;
    }
  }
  return 0;
}

// ---- A0 that became a space ------------------------------------------------------------------

constexpr Bytes kBlank{.also = " "};
constexpr Bytes kRest{0x80, 0xbf};
// Without 85, an ellipsis of Windows-1252, and A0 itself.
constexpr Bytes kPlainRest{0x86, 0x9f,
                           "\x80\x81\x82\x83\x84\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac"
                           "\xad\xae\xaf\xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xbb\xbc\xbd"
                           "\xbe\xbf"};

// Sequences that are UTF-8 of likely characters if the space is A0: of two bytes those for U+00A0,
// U+00E0, U+0160, U+03A0, U+0420 and U+0660; of three not those with the space second after E0 and
// E1; of four those that start with F0.
constexpr Pattern kSpaced[] = {
    {{{{.also = "\xc2\xc3\xc5\xce\xd0\xd9"}, kBlank}}, 2},
    {{{{.also = "\xe2\xe3"}, kBlank, kPlainRest}}, 3},
    {{{{0xe0, 0xe3}, kPlainRest, kBlank}}, 3},
    {{{{0xf0, 0xf0}, kBlank, kRest, kRest}}, 4},
    {{{{0xf0, 0xf0}, kRest, kBlank, kRest}}, 4},
    {{{{0xf0, 0xf0}, kRest, kRest, kBlank}}, 4},
};

bool has_spaced_sequence(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (length_of_first(kSpaced, bytes, i) > 0) {
      return true;
    }
  }
  return false;
}

/// C3 and a space mostly are the word U+00E0: the space stays after it, unless a usual Portuguese
/// continuation follows.
std::string restore_a_grave(std::string_view bytes) {
  constexpr std::string_view kGoesOn[] = {" ", "quele", "quela", "quilo", "s "};
  std::string out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    out += bytes[i];
    const std::string_view rest = bytes.substr(i);
    if (rest.starts_with("\xc3 ") && std::ranges::none_of(kGoesOn, [&](std::string_view word) {
          return rest.substr(2).starts_with(word);
        })) {
      out += "\xa0 ";
      ++i;
    }
  }
  return out;
}

/// Restores A0 where it became a space.
std::string restore_a0(std::string_view given) {
  std::string bytes = restore_a_grave(given);
  for (size_t i = 0; i < bytes.size();) {
    const size_t length = length_of_first(kSpaced, bytes, i);
    std::replace(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                 bytes.begin() + static_cast<std::ptrdiff_t>(i + length), ' ', '\xa0');
    i += std::max<size_t>(1, length);
  }
  return bytes;
}

// ---- Bytes that were lost --------------------------------------------------------------------

constexpr Bytes kGone{.also = "\x1a"};
constexpr Bytes kGoneOrAsked{.also = "\x1a?"};
constexpr Bytes kRestOrGone{0x80, 0xbf, "\x1a"};
constexpr Bytes kRestOrGoneOrAsked{0x80, 0xbf, "\x1a?"};
constexpr Bytes kSurrogateLead{0xed, 0xed};
constexpr Bytes kHigh{0xa0, 0xaf};
constexpr Bytes kLow{0xb0, 0xbf};

// UTF-8 and CESU-8 in which bytes became U+FFFD or, at most once, a question mark.
constexpr Pattern kLossy[] = {
    {{{{0xc2, 0xdf}, kGone}}, 2},
    {{{{0xc2, 0xc3}, {.also = "?"}}}, 2},
    {{{kSurrogateLead, kHigh, kGoneOrAsked, kSurrogateLead, kLow}}, 5},
    {{{kSurrogateLead, kHigh, kRestOrGoneOrAsked, kSurrogateLead, kLow}}, 5},
    {{{{0xe0, 0xef}, kGoneOrAsked, kRestOrGone}}, 3},
    {{{{0xe0, 0xef}, kRestOrGone, kGoneOrAsked}}, 3},
    {{{{0xf0, 0xf4}, kGoneOrAsked, kRestOrGone, kRestOrGone}}, 4},
    {{{{0xf0, 0xf4}, kRestOrGone, kGoneOrAsked, kRestOrGone}}, 4},
    {{{{0xf0, 0xf4}, kRestOrGone, kRestOrGone, kGoneOrAsked}}, 4},
    {{{kGone}}, 1},
};

// The sixth byte of the two patterns for a surrogate pair, by their index in kLossy.
size_t lossy_length(std::string_view bytes, size_t start) {
  for (size_t i = 0; i < std::size(kLossy); ++i) {
    if (!kLossy[i].fits(bytes, start)) {
      continue;
    }
    const bool is_pair = kLossy[i].length == 5;
    if (!is_pair) {
      return kLossy[i].length;
    }
    const Bytes& last = i == 2 ? kRestOrGoneOrAsked : kGoneOrAsked;
    if (start + 5 < bytes.size() && last.holds(bytes[start + 5])) {
      return 6;
    }
  }
  return 0;
}

/// Every sequence with lost bytes becomes U+FFFD.
std::string replace_lossy(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size();) {
    const size_t length = lossy_length(bytes, i);
    if (length > 0) {
      out += "\xef\xbf\xbd";
      i += length;
    } else {
      out += bytes[i++];
    }
  }
  return out;
}

// ---- Decoding --------------------------------------------------------------------------------

/// A surrogate pair in CESU-8 at `start`.
std::optional<char32_t> cesu_8_at(std::string_view bytes, size_t start) {
  if (bytes.size() - start < 6) {
    return std::nullopt;
  }
  const auto byte = [&](size_t i) { return static_cast<char32_t>(byte_at(bytes, start + i)); };
  const auto rest = [&](size_t i) { return byte(i) >= 0x80 && byte(i) <= 0xbf; };
  if (byte(0) != 0xed || byte(1) < 0xa0 || byte(1) > 0xaf || !rest(2) || byte(3) != 0xed ||
      byte(4) < 0xb0 || byte(4) > 0xbf || !rest(5)) {
    return std::nullopt;
  }
  return 0x10000 + ((byte(1) & 0xf) << 16) + ((byte(2) & 0x3f) << 10) + ((byte(4) & 0xf) << 6) +
         (byte(5) & 0x3f);
}

/// UTF-8 with Java's two bytes for U+0000 and CESU-8's surrogate pairs; nothing for other bytes.
std::optional<std::u32string> decode_variants(std::string_view bytes) {
  std::u32string out;
  for (size_t i = 0; i < bytes.size();) {
    if (bytes.substr(i).starts_with("\xc0\x80")) {
      out += U'\0';
      i += 2;
    } else if (const auto pair = cesu_8_at(bytes, i)) {
      out += *pair;
      i += 6;
    } else {
      // The longest sequence has four bytes, so four bytes are enough.
      if (invalid_utf8_at(bytes.substr(i, 4)) == 0) {
        return std::nullopt;
      }
      out += next_code_point(bytes, i);
    }
  }
  return out;
}

/// Decodes UTF-8 that was read as this page; nothing if that is not possible.
std::optional<std::u32string> reread(std::string bytes, size_t page) {
  if (page != kMacRoman && has_spaced_sequence(bytes)) {
    // Mac Roman has a dash there, which a space may follow.
    bytes = restore_a0(bytes);
  }
  if (code_pages()[page].is_sloppy()) {
    bytes = replace_lossy(bytes);
  }
  return decode_variants(bytes);
}

/// Fixes the parts of the text that look like misread UTF-8.
std::u32string fix_parts(const std::u32string& text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = misread_utf8_length(text, i);
    if (length == 0) {
      out += text[i++];
      continue;
    }
    std::u32string part = text.substr(i, length);
    // A part as long as the text was tried already.
    out += length < text.size() && looks_garbled(part) ? fix_encoding(part) : part;
    i += length;
  }
  return out;
}

bool is_c1(char32_t c) { return c >= 0x80 && c <= 0x9f; }

bool is_ascii(std::u32string_view text) {
  return std::ranges::all_of(text, [](char32_t c) { return c < 0x80; });
}

std::u32string fix_one_step(const std::u32string& text) {
  if (is_ascii(text) || !looks_garbled(text)) {
    return text;
  }
  for (size_t page = 0; page < code_pages().size(); ++page) {
    const std::optional<std::string> bytes = code_pages()[page].encode(text);
    if (!bytes) {
      continue;
    }
    if (const auto fixed = reread(*bytes, page)) {
      return *fixed;
    }
  }
  std::u32string fixed = fix_parts(text);
  if (fixed != text) {
    return fixed;
  }
  // Latin-1 meant as Windows-1252, if all of its C1 controls have a character there; else each
  // control separately. In both cases each control becomes that character, or stays.
  return fix_c1_controls(text);
}

}  // namespace

std::u32string fix_c1_controls(std::u32string text) {
  for (char32_t& c : text) {
    if (is_c1(c)) {
      c = windows_1252(static_cast<unsigned char>(c));
    }
  }
  return text;
}

std::u32string fix_encoding(std::u32string text) {
  while (true) {
    std::u32string fixed = fix_one_step(text);
    if (fixed == text) {
      return text;
    }
    text = std::move(fixed);
  }
}

}  // namespace kinema::text
