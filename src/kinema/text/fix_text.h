#pragma once

#include <string>
#include <string_view>

namespace kinema::text {

/// Repairs text as ftfy 6.3's `fix_text` with its defaults, line by line: HTML references (unless a
/// `<` has been seen), mojibake, C1 controls, Latin ligatures, full- and half-width forms, curly
/// quotes, line breaks, surrogates, terminal escapes, control characters, NFC.
std::u32string fix_text(std::u32string_view text);

}  // namespace kinema::text
