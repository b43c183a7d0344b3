#include "kinema/http/target.h"

#include <algorithm>

#include "kinema/core/printable.h"

namespace kinema::http {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  if (c >= 'A' && c <= 'F') {
    return c - 'A' + 10;
  }
  return -1;
}

/// Decoded text without control characters, or empty.
std::optional<std::string> decoded_part(std::string_view text, bool plus_is_blank) {
  std::optional<std::string> out = percent_decoded(text, plus_is_blank);
  if (out && !is_plain_text(*out)) {
    out.reset();
  }
  return out;
}

/// `name=value&...` into `query`; false where a part is malformed.
bool read_query(std::string_view text, std::map<std::string, std::string>& query) {
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(pair.size() + 1, text.size()));
    if (pair.empty()) {
      continue;
    }
    const size_t equals = pair.find('=');
    const std::string_view raw = equals == pair.npos ? std::string_view() : pair.substr(equals + 1);
    const auto name = decoded_part(pair.substr(0, equals), /*plus_is_blank=*/true);
    // A value may be prose, with line breaks.
    auto value = percent_decoded(raw, /*plus_is_blank=*/true);
    if (!name || !value || printable(*value) != *value) {
      return false;
    }
    query.emplace(*name, std::move(*value));
  }
  return true;
}

}  // namespace

std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_blank) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += plus_is_blank && text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return std::nullopt;
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

bool is_plain_text(std::string_view text) { return printable_line(text) == text; }

std::optional<Target> read_target(std::string_view target) {
  if (!target.starts_with('/')) {
    return std::nullopt;
  }
  Target out;
  const size_t mark = target.find('?');
  std::string_view path = target.substr(1, mark == target.npos ? mark : mark - 1);
  while (true) {
    const size_t slash = path.find('/');
    auto segment = decoded_part(path.substr(0, slash), /*plus_is_blank=*/false);
    if (!segment) {
      return std::nullopt;
    }
    out.segments.push_back(std::move(*segment));
    if (slash == path.npos) {
      break;
    }
    path.remove_prefix(slash + 1);
  }
  if (mark != target.npos && !read_query(target.substr(mark + 1), out.query)) {
    return std::nullopt;
  }
  return out;
}

}  // namespace kinema::http
