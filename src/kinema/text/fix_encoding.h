#pragma once

#include <string>
#include <string_view>

namespace kinema::text {

/// Undoes mojibake: UTF-8 that was decoded as a single-byte encoding (several times, with
/// non-breaking spaces replaced, or with lost bytes), completely or in parts, and C1 controls that
/// were Windows-1252. Text that does not look garbled stays. Source: ftfy 6.3, `fix_encoding`.
std::u32string fix_encoding(std::u32string text);

/// C1 control characters become those of Windows-1252.
std::u32string fix_c1_controls(std::u32string text);

}  // namespace kinema::text
