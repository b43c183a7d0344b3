#include "kinema/config/scalar.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "kinema/config/choices.h"

namespace kinema::config {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    c = (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

/// Digits without underscores between them; nothing if an underscore is elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
      continue;
    }
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
      return std::nullopt;
    }
  }
  return out;
}

template <typename Number, typename... Format>
std::optional<Number> parse_all(std::string_view text, Format... format) {
  Number value{};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, format...);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::optional<bool> to_bool(std::string_view text) {
  const std::string word = lower(text);
  if (word == "true" || word == "yes" || word == "on") {
    return true;
  }
  if (word == "false" || word == "no" || word == "off") {
    return false;
  }
  return std::nullopt;
}

std::optional<int64_t> to_int(std::string_view text) {
  const auto plain = without_underscores(text);
  if (!plain) {
    return std::nullopt;
  }
  std::string_view digits = *plain;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) {
    digits.remove_prefix(1);
  }
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0') {
    const char mark = digits[1];
    base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    if (base != 10) {
      digits.remove_prefix(2);
    }
  }
  if (digits.empty() || digits[0] == '-' || digits[0] == '+') {
    return std::nullopt;
  }
  // 010 is 8 to YAML 1.1 and 10 to YAML 1.2.
  if (base == 10 && digits.size() > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9') {
    return std::nullopt;
  }
  const std::string signed_digits = (negative ? "-" : "") + std::string(digits);
  if (const auto value = parse_all<int64_t>(signed_digits, base)) {
    return value;
  }
  // Beyond 2^53 a double does not represent every integer.
  const auto number = to_double(text);
  if (base == 10 && number && std::trunc(*number) == *number && std::abs(*number) <= 0x1p53) {
    return static_cast<int64_t>(*number);
  }
  return std::nullopt;
}

std::optional<double> to_double(std::string_view text) {
  const auto plain = without_underscores(text);
  if (!plain) {
    return std::nullopt;
  }
  std::string_view digits = *plain;
  if (digits.starts_with('+')) {
    digits.remove_prefix(1);
    if (digits.starts_with('-')) {
      return std::nullopt;
    }
  }
  // from_chars also accepts `inf` and `nan`.
  if (digits.empty() || digits.find_first_not_of("0123456789+-.eE") != std::string_view::npos) {
    return std::nullopt;
  }
  return parse_all<double>(digits, std::chars_format::general);
}

bool is_null(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (length == 0 || lead > 0xf4 || i + length > text.size()) {
      return false;
    }
    uint32_t code = length == 1 ? lead : lead & (0xffU >> (length + 1));
    for (size_t k = 1; k < length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if ((byte & 0xc0U) != 0x80U) {
        return false;
      }
      code = code << 6U | (byte & 0x3fU);
    }
    const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    if (overlong || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) {
      return false;
    }
    i += length;
  }
  return true;
}

std::vector<std::string_view> words(std::string_view one_of) {
  std::vector<std::string_view> out;
  while (true) {
    const size_t bar = one_of.find('|');
    std::string_view word = one_of.substr(0, bar);
    while (word.starts_with(' ')) {
      word.remove_prefix(1);
    }
    while (word.ends_with(' ')) {
      word.remove_suffix(1);
    }
    out.push_back(word);
    if (bar == std::string_view::npos) {
      return out;
    }
    one_of.remove_prefix(bar + 1);
  }
}

std::string_view word_at(std::string_view one_of, size_t place) {
  const std::vector<std::string_view> all = words(one_of);
  return place < all.size() ? all[place] : std::string_view();
}

}  // namespace kinema::config
