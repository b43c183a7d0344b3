#include "kinema/text/html.h"

#include <unicode/locid.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "kinema/text/code_page.h"
#include "kinema/text/html_entities.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

constexpr char32_t kReplacement = 0xfffd;
// The limit in the pattern of Python's html module.
constexpr size_t kLongestName = 32;
// ftfy's limit: 24 letters and digits.
constexpr size_t kLongestStrictName = 24;

struct Reference {
  std::u32string text;
  bool bare = false;  // valid without a semicolon
};

using References = std::map<std::string, Reference, std::less<>>;

bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }
bool is_letter(char32_t c) { return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z'); }
int hex_value(char32_t c) {
  if (is_digit(c)) {
    return static_cast<int>(c - U'0');
  }
  const char32_t lower = c | 0x20;
  return lower >= U'a' && lower <= U'f' ? static_cast<int>(lower - U'a') + 10 : -1;
}

References read_references() {
  References out;
  std::string_view table = named_references();
  while (!table.empty()) {
    std::string_view entry = table.substr(0, table.find_first_of(" \n"));
    table.remove_prefix(std::min(entry.size() + 1, table.size()));
    const size_t mark = entry.find_first_of("=!");
    Reference reference{.bare = entry[mark] == '!'};
    reference.text += U'\0';
    for (const char c : entry.substr(mark + 1)) {
      if (c == '+') {
        reference.text += U'\0';
      } else {
        reference.text.back() = reference.text.back() * 16 + static_cast<char32_t>(hex_value(c));
      }
    }
    out.emplace(entry.substr(0, mark), std::move(reference));
  }
  return out;
}

const References& references() {
  static const References all = read_references();
  return all;
}

/// Names are ASCII; other text is not a name.
std::string narrow(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) {
    out += c < 0x80 ? static_cast<char>(c) : '\xff';
  }
  return out;
}

/// The text of a numeric reference (HTML standard, 13.2.5.80, as in Python): characters of
/// Windows-1252 instead of C1 controls, nothing for other controls and for noncharacters.
std::u32string number_text(uint64_t number) {
  if (number == 0 || (number >= 0xd800 && number <= 0xdfff) || number > 0x10ffff) {
    return {kReplacement};
  }
  const auto c = static_cast<char32_t>(number);
  if (c == U'\r') {
    return {c};
  }
  if (c >= 0x80 && c <= 0x9f) {
    return {windows_1252(static_cast<unsigned char>(c))};
  }
  const bool is_control = c <= 0x08 || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f;
  const bool is_noncharacter = (c >= 0xfdd0 && c <= 0xfdef) || (c & 0xfffe) == 0xfffe;
  return is_control || is_noncharacter ? std::u32string() : std::u32string{c};
}

/// A numeric reference at the start of the text, which starts with `&#`: its number of code points
/// (including the semicolon, if present), and its text.
struct Numeric {
  size_t length = 0;  // 0: not a reference
  bool closed = false;
  std::u32string text;
};

Numeric numeric_reference(std::u32string_view text) {
  size_t at = 2;
  const bool hex = at < text.size() && (text[at] == U'x' || text[at] == U'X');
  at += hex ? 1 : 0;
  const size_t first = at;
  uint64_t number = 0;
  for (; at < text.size() && (hex ? hex_value(text[at]) >= 0 : is_digit(text[at])); ++at) {
    // Saturates far above the last code point.
    number = std::min<uint64_t>(number * (hex ? 16 : 10) + hex_value(text[at]), 1U << 30);
  }
  if (at == first) {
    return {};
  }
  const bool closed = at < text.size() && text[at] == U';';
  return {.length = at + (closed ? 1 : 0), .closed = closed, .text = number_text(number)};
}

/// The longest name, at the start of `name`, that is valid without a semicolon.
std::optional<std::pair<size_t, std::u32string>> bare_reference(const std::string& name) {
  for (size_t length = name.size(); length >= 2; --length) {
    const auto found = references().find(std::string_view(name).substr(0, length));
    if (found != references().end() && found->second.bare) {
      return std::pair{length, found->second.text};
    }
  }
  return std::nullopt;
}

bool is_name_part(char32_t c) {
  return c != U'\t' && c != U'\n' && c != U'\f' && c != U' ' && c != U'<' && c != U'&' &&
         c != U'#' && c != U';';
}

/// Appends the text of a named reference after `&` at the start of the text, and returns the length
/// of the reference; 0 if there is none.
size_t append_named(std::u32string_view text, std::u32string& out) {
  size_t end = 1;
  while (end < text.size() && end <= kLongestName && is_name_part(text[end])) {
    ++end;
  }
  const std::string name = narrow(text.substr(1, end - 1));
  if (name.empty()) {
    return 0;
  }
  if (end < text.size() && text[end] == U';') {
    const auto found = references().find(name);
    if (found != references().end()) {
      out += found->second.text;
      return end + 1;
    }
  }
  if (const auto bare = bare_reference(name)) {
    out += bare->second;
    return 1 + bare->first;
  }
  // The whole match is copied, so that no reference is searched inside it.
  out += text.substr(0, end);
  return end;
}

std::u32string to_upper(std::u32string_view text) {
  icu::UnicodeString upper;
  for (const char32_t c : text) {
    upper.append(static_cast<UChar32>(c));
  }
  upper.toUpper(icu::Locale::getRoot());
  std::u32string out;
  for (int32_t i = 0; i < upper.length(); i = upper.moveIndex32(i, 1)) {
    out += static_cast<char32_t>(upper.char32At(i));
  }
  return out;
}

bool is_lower_case(std::string_view name) {
  return std::ranges::none_of(name, [](char c) { return c >= 'A' && c <= 'Z'; });
}

/// A name in capitals means the capital of the character with the lower-case name, unless it starts
/// with a separate name.
std::optional<std::u32string> capital_reference(const std::string& name) {
  if (std::ranges::any_of(name, [](char c) { return c >= 'a' && c <= 'z'; })) {
    return std::nullopt;
  }
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const auto found = references().find(lower);
  if (found == references().end() || !is_lower_case(found->first) || bare_reference(name)) {
    return std::nullopt;
  }
  return to_upper(found->second.text);
}

/// A reference by ftfy's rules: its number of code points after `&`, including the semicolon, and
/// its text.
struct Strict {
  size_t length = 0;  // 0: not a reference
  std::u32string text;
};

/// The reference in the text after `&`.
Strict strict_reference(std::u32string_view text) {
  const bool is_number = text.starts_with(U'#');
  const size_t first = is_number ? 1 : 0;
  size_t end = first;
  while (end < text.size() && end - first < kLongestStrictName &&
         (is_digit(text[end]) || is_letter(text[end]))) {
    ++end;
  }
  if (end == first || end == text.size() || text[end] != U';') {
    return {};
  }
  const std::u32string whole = U"&" + std::u32string(text.substr(0, end + 1));
  const size_t length = end + 1;
  if (is_number) {
    const Numeric number = numeric_reference(whole);
    // ftfy treats a semicolon in the result as a missing match.
    const bool complete = number.length == whole.size() && number.text != U";";
    return {length, complete ? number.text : whole};
  }
  const std::string name = narrow(text.substr(0, end));
  const auto found = references().find(name);
  if (found != references().end()) {
    return {length, found->second.text};
  }
  const auto capital = capital_reference(name);
  return {length, capital ? *capital : whole};
}

}  // namespace

std::u32string unescape_html(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const std::u32string_view rest = text.substr(at);
    size_t taken = 0;
    if (rest.starts_with(U"&#")) {
      const Numeric number = numeric_reference(rest);
      out += number.text;
      taken = number.length;
    } else if (rest[0] == U'&') {
      taken = append_named(rest, out);
    }
    if (taken == 0) {
      out += rest[0];
      taken = 1;
    }
    at += taken;
  }
  return out;
}

std::u32string unescape_html_strictly(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (text[at] != U'&') {
      out += text[at++];
      continue;
    }
    Strict reference = strict_reference(text.substr(at + 1));
    // `&amp;amp;amp;lt;` becomes `&lt;` in one pass: with one level per pass, a text of n
    // characters that is one such name would be read n / 4 times.
    size_t next = at + 1 + reference.length;
    while (reference.text == U"&") {
      const Strict inner = strict_reference(text.substr(next));
      if (inner.text != U"&") {
        break;
      }
      next += inner.length;
    }
    if (reference.length == 0) {
      out += U'&';
    } else {
      out += reference.text;
    }
    at = next;
  }
  return out;
}

}  // namespace kinema::text
