#pragma once

#include <string>
#include <string_view>

namespace kinema {

/// The text without anything that a terminal would interpret: control characters (except line ends
/// and tabs, but including those that turn the writing direction) and bytes that are not UTF-8
/// become `\x1b` or `\u202e`. Names and settings in files may contain any of them.
std::string printable(std::string_view text);

/// `printable` for a message whose continuation lines are indented by two spaces. A line break
/// without two spaces after it becomes `\x0a`, so that a name in the message cannot begin a line of
/// its own.
std::string printable_message(std::string_view text);

/// `printable` for one line: line breaks and tabs become `\x0a` and `\x09`.
std::string printable_line(std::string_view text);

}  // namespace kinema
