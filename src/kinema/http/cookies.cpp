#include "kinema/http/cookies.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/core/error.h"

namespace kinema::http {
namespace {

bool is_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_';
  });
}

/// A character of a name or value, by RFC 6265, 4.1.1.
bool is_cookie_character(unsigned char c) {
  return c > 0x20 && c < 0x7f && c != '"' && c != ',' && c != ';' && c != '\\';
}

std::string_view trimmed_blanks(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

std::map<std::string, std::string> read_cookies(std::string_view field) {
  std::map<std::string, std::string> out;
  while (!field.empty()) {
    const std::string_view pair = trimmed_blanks(field.substr(0, field.find(';')));
    field.remove_prefix(std::min(field.find(';'), field.size() - 1) + 1);
    const size_t equals = pair.find('=');
    if (equals == pair.npos || equals == 0) {
      continue;
    }
    const std::string_view name = pair.substr(0, equals);
    std::string_view value = pair.substr(equals + 1);
    if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"')) {
      value = value.substr(1, value.size() - 2);
    }
    if (std::ranges::all_of(name, is_cookie_character) &&
        std::ranges::all_of(value, is_cookie_character)) {
      out.emplace(name, value);
    }
  }
  return out;
}

std::string set_cookie(std::string_view name, std::string_view value, bool is_secure) {
  check(is_word(name) && is_word(value), "[http] `{}={}` is not a cookie of letters and digits",
        name, value);
  constexpr int kYear = 365 * 24 * 3600;
  return fmt::format("{}={}; Max-Age={}; Path=/; HttpOnly; SameSite=Strict{}", name, value, kYear,
                     is_secure ? "; Secure" : "");
}

}  // namespace kinema::http
