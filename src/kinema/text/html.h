#pragma once

#include <string>
#include <string_view>

namespace kinema::text {

/// Replaces character references as Python's `html.unescape` does: named ones with and without
/// their semicolon (the longest name that fits), numeric ones with the HTML standard's repairs;
/// what is none stays.
std::u32string unescape_html(std::u32string_view text);

/// The same as ftfy does it: only references that end in a semicolon and are unambiguous, names in
/// capitals as well (`&EACUTE;`).
std::u32string unescape_html_strictly(std::u32string_view text);

}  // namespace kinema::text
