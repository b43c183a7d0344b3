#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::text {

/// The position of the first byte that is not well-formed UTF-8 (including overlong forms,
/// surrogates and values above U+10FFFF), or npos.
size_t invalid_utf8_at(std::string_view text);

/// True for text that begins with the byte order mark of UTF-16, and what converts it.
inline bool is_utf16(std::string_view text) {
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
}
inline constexpr std::string_view kUtf16Remedy =
    "`iconv -f utf-16 -t utf-8 FILE > NEW` makes UTF-8 of what some spreadsheets write";

/// The code point at `at`, which is advanced past it. The text must be well-formed.
char32_t next_code_point(std::string_view text, size_t& at);

/// Code points of well-formed UTF-8; throws an Error with the position of the first other byte.
std::u32string decode_utf8(std::string_view text);

/// UTF-8 of code points; a surrogate or a value above U+10FFFF becomes U+FFFD.
std::string encode_utf8(std::u32string_view text);
void append_utf8(std::string& to, char32_t c);

/// The Unicode property White_Space.
bool is_white_space(char32_t c);

/// White_Space and the information separators U+001C to U+001F: the spaces of Python's
/// `str.isspace` and regular expressions.
bool is_python_space(char32_t c);

/// Unicode's form NFC, in time proportional to n log n.
std::u32string compose(std::u32string_view text);

/// Ends of the extended grapheme clusters (user-perceived characters) of well-formed UTF-8, as byte
/// positions.
std::vector<size_t> grapheme_ends(std::string_view text);

}  // namespace kinema::text
