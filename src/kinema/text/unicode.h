#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::text {

/// Where the first byte that is not well-formed UTF-8 stands (overlong forms, surrogates and values
/// above U+10FFFF are none), or npos.
size_t invalid_utf8_at(std::string_view text);

/// The code point at `at`, which is moved behind it. The text must be well-formed.
char32_t next_code_point(std::string_view text, size_t& at);

/// Code points of well-formed UTF-8; throws an Error that says where it is not.
std::u32string decode_utf8(std::string_view text);

/// UTF-8 of code points; a surrogate or a value above U+10FFFF becomes U+FFFD.
std::string encode_utf8(std::u32string_view text);
void append_utf8(std::string& to, char32_t c);

/// The Unicode property White_Space.
bool is_white_space(char32_t c);

/// White_Space and the information separators U+001C to U+001F: what Python's `str.isspace` and
/// regular expressions take for a space.
bool is_python_space(char32_t c);

/// Unicode's form NFC, in time proportional to n log n.
std::u32string compose(std::u32string_view text);

/// Ends of the extended grapheme clusters of well-formed UTF-8 (what a reader sees as one
/// character), as byte positions.
std::vector<size_t> grapheme_ends(std::string_view text);

}  // namespace kinema::text
