#pragma once

#include <string_view>

namespace kinema {

/// The part of `text` without characters of `blanks` at both ends.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n") {
  const size_t first = text.find_first_not_of(blanks);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

}  // namespace kinema
