#pragma once

#include <string>
#include <string_view>

namespace kinema {

/// Text of which nothing is a command to a terminal: control characters (all but line ends and
/// tabs, and those that turn the direction of what follows) and bytes that are no UTF-8 become
/// `\x1b` or `\u202e`. Names and settings in files may hold any.
std::string printable(std::string_view text);

}  // namespace kinema
