#pragma once

#include <cstddef>
#include <string_view>

namespace kinema::text {

/// True if some neighbours in the text are far more likely bytes in a wrong encoding (such as
/// U+00C3 U+00A9 for an e with acute) than intended text. The rules are ftfy's.
bool looks_garbled(std::u32string_view text);

/// The number of code points at `start` that form UTF-8 sequences decoded as one of the single-byte
/// encodings; 0 if there are none, or if the code point before looks like a part of such a
/// sequence.
size_t misread_utf8_length(std::u32string_view text, size_t start);

}  // namespace kinema::text
