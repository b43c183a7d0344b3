#include "kinema/http/ranges.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

namespace kinema::http {
namespace {

/// A number of digits only; one that is too large for 64 bits is the largest.
std::optional<int64_t> read_position(std::string_view text) {
  const bool is_digits =
      !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (!is_digits) {
    return std::nullopt;
  }
  int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() ? out : std::numeric_limits<int64_t>::max();
}

}  // namespace

ByteRange read_range(std::string_view field, int64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  const ByteRange whole{.begin = 0, .end = size};
  if (!field.starts_with(kUnit) || field.find(',') != field.npos) {
    return whole;
  }
  field.remove_prefix(kUnit.size());
  const size_t dash = field.find('-');
  if (dash == field.npos) {
    return whole;
  }
  const std::optional<int64_t> first = read_position(field.substr(0, dash));
  const std::optional<int64_t> last = read_position(field.substr(dash + 1));
  const bool is_open = dash + 1 == field.size();
  if (dash == 0) {  // the last bytes
    if (!last) {
      return whole;
    }
    return *last == 0 || size == 0
               ? ByteRange{.kind = ByteRange::Kind::IMPOSSIBLE}
               : ByteRange{ByteRange::Kind::PART, std::max<int64_t>(0, size - *last), size};
  }
  if (!first || (!last && !is_open) || (last && *last < *first)) {
    return whole;
  }
  if (*first >= size) {
    return {.kind = ByteRange::Kind::IMPOSSIBLE};
  }
  return {ByteRange::Kind::PART, *first, is_open ? size : std::min(*last, size - 1) + 1};
}

}  // namespace kinema::http
