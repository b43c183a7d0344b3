#include "kinema/flags/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace kinema::flags {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

template <size_t N>
bool among(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

/// XLA's parser accepts true, false, 1 and 0 in any case; libtpu's also yes, y, t and their
/// opposites.
std::optional<std::string> read_bool(std::string_view text, Reader reader) {
  constexpr std::array<std::string_view, 5> kTrue = {"true", "1", "yes", "y", "t"};
  constexpr std::array<std::string_view, 5> kFalse = {"false", "0", "no", "n", "f"};
  const std::string word = lower(text);
  const bool short_form = word != "true" && word != "false" && word != "1" && word != "0";
  if (reader == Reader::XLA_FLAGS && short_form) {
    return std::nullopt;
  }
  if (among(kTrue, word)) {
    return "true";
  }
  return among(kFalse, word) ? std::optional<std::string>("false") : std::nullopt;
}

std::optional<std::string> read_tristate(std::string_view text) {
  const std::string word = lower(text);
  if (word == "true" || word == "enabled") {
    return "ENABLED";
  }
  if (word == "false" || word == "disabled") {
    return "DISABLED";
  }
  return word == "auto" ? std::optional<std::string>("AUTO") : std::nullopt;
}

std::optional<std::string> read_integer(std::string_view text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end && !text.empty()
             ? std::optional<std::string>(fmt::format("{}", number))
             : std::nullopt;
}

std::optional<std::string> read_number(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end && !text.empty() && std::isfinite(number)
             ? std::optional<std::string>(fmt::format("{}", number))
             : std::nullopt;
}

/// True when `word` is one of "a | b".
bool allowed(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t bar = std::min(words.find(" | "), words.size());
    if (words.substr(0, bar) == word) {
      return true;
    }
    words.remove_prefix(std::min(bar + 3, words.size()));
  }
  return false;
}

std::optional<std::string> read_word(const Flag& flag, std::string_view text, Reader reader) {
  const bool as_it_is = reader == Reader::XLA_FLAGS && !flag.any_case;
  std::string word = as_it_is ? std::string(text) : lower(text);
  return allowed(flag.words, word) ? std::optional<std::string>(word) : std::nullopt;
}

std::optional<std::string> read_words(const Flag& flag, std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty() && !flag.words.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string_view word = rest.substr(0, comma);
    if (word.starts_with('+') || word.starts_with('-')) {
      word.remove_prefix(1);  // adds to the default or removes from it
    }
    if (!allowed(flag.words, lower(word))) {
      return std::nullopt;
    }
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return flag.words.empty() ? std::string(text) : lower(text);
}

}  // namespace

std::optional<std::string> canonical(const Flag& flag, std::string_view text, Reader reader) {
  switch (flag.type) {
    case Type::BOOL:
      return read_bool(text, reader);
    case Type::TRISTATE:
      return read_tristate(text);
    case Type::INTEGER:
      return read_integer(text);
    case Type::NUMBER:
      return read_number(text);
    case Type::TEXT:
      return std::string(text);
    case Type::WORD:
      return read_word(flag, text, reader);
    case Type::WORDS:
      break;
  }
  return read_words(flag, text);
}

std::string expectation(const Flag& flag) {
  std::string out(to_string(flag.type));
  if (flag.type == Type::INTEGER) {
    out = "an integer";
  } else if (flag.type == Type::NUMBER) {
    out = "a number";
  } else if (!flag.words.empty()) {
    out = (flag.type == Type::WORD ? "one of " : "a list of ") + std::string(flag.words);
  }
  return out;
}

Value to_option(const Flag* flag, const std::string& value) {
  int64_t whole = 0;
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, whole);
  const bool is_whole = error == std::errc() && rest == end && !value.empty();
  if (flag == nullptr) {
    if (value == "true" || value == "false") {
      return value == "true";
    }
    return is_whole ? Value(whole) : Value(value);
  }
  switch (flag->type) {
    case Type::BOOL:
      return value == "true";
    case Type::INTEGER:
      return is_whole ? Value(whole) : Value(value);
    case Type::WORD: {
      std::string out = value;
      if (!flag->wire.empty()) {
        std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::toupper(c); });
        out.insert(0, flag->wire);
      }
      return out;
    }
    case Type::WORDS: {
      // Options have the words of an enumeration in capitals.
      std::string out = value;
      if (!flag->words.empty()) {
        std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::toupper(c); });
      }
      return out;
    }
    default:
      return value;
  }
}

bool is_on(std::string_view value) {
  if (value == "true" || value == "ENABLED") {
    return true;
  }
  const bool number =
      !value.empty() && value.find_first_not_of("0123456789") == std::string_view::npos;
  return number && value != "0";
}

}  // namespace kinema::flags
