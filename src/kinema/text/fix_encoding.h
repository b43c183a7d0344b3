#pragma once

#include <string>
#include <string_view>

namespace kinema::text {

/// Undoes mojibake: UTF-8 that was read as a single-byte encoding (several times over, with
/// non-breaking spaces made plain, or with lost bytes), whole or in parts, and C1 controls that
/// were meant for Windows-1252. Text that does not look garbled stays. Source: ftfy 6.3,
/// `fix_encoding`.
std::u32string fix_encoding(std::u32string text);

/// C1 control characters become what Windows-1252 has in their place.
std::u32string fix_c1_controls(std::u32string text);

}  // namespace kinema::text
