#pragma once

#include <cstddef>
#include <string_view>

namespace kinema::text {

/// True when some neighbours in the text are far likelier the bytes of one encoding read as another
/// (such as U+00C3 U+00A9 for an e with acute) than what somebody wrote. The rules are ftfy's.
bool looks_garbled(std::u32string_view text);

/// How many code points at `start` read like UTF-8 sequences, one after the other, that were
/// decoded as one of the single-byte encodings; 0 when none does, or when the code point before
/// looks like the rest of such a sequence.
size_t misread_utf8_length(std::u32string_view text, size_t start);

}  // namespace kinema::text
