#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::http {

/// A request target in its parts. Nothing is resolved: `..` is a segment like any other.
struct Target {
  std::vector<std::string> segments;         // of the path, each decoded: `/a%2Fb/` is {"a/b", ""}
  std::map<std::string, std::string> query;  // decoded; the first of equal names
};

/// Reads a target in origin form, `/path?query`; empty for any other form, an incomplete `%XX`, a
/// NUL or control character, and text that is not UTF-8.
std::optional<Target> read_target(std::string_view target);

/// `%XX` decoded, and `+` as a blank if `plus_is_blank` (in a query); empty for an incomplete one.
std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_blank = false);

/// True for well-formed UTF-8 without control characters.
bool is_plain_text(std::string_view text);

}  // namespace kinema::http
