#pragma once

#include <string>
#include <string_view>

namespace kinema::text {

/// Replaces character references as Python's `html.unescape`: named ones with and without a
/// semicolon (the longest name that matches), numeric ones with the HTML standard's repairs; other
/// text stays.
std::u32string unescape_html(std::u32string_view text);

/// The same by ftfy's rules: only unambiguous references that end in a semicolon, also names in
/// capitals (`&EACUTE;`).
std::u32string unescape_html_strictly(std::u32string_view text);

}  // namespace kinema::text
