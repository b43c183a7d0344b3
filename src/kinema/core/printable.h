#pragma once

#include <string>
#include <string_view>

namespace kinema {

/// Text of which nothing is a command to a terminal: control characters (all but line ends and
/// tabs, and those that turn the direction of what follows) and bytes that are no UTF-8 become
/// `\x1b` or `\u202e`. Names and settings in files may hold any.
std::string printable(std::string_view text);

/// `printable` for a message whose further lines are indented by two spaces. A line break that is
/// not followed by two spaces becomes `\x0a`, so that a name in the message cannot begin a line of
/// its own.
std::string printable_message(std::string_view text);

/// `printable` for one line: line breaks and tabs become `\x0a` and `\x09`.
std::string printable_line(std::string_view text);

}  // namespace kinema
