#include "kinema/text/prompt_syntax.h"

#include <algorithm>
#include <array>
#include <optional>

namespace kinema::text {
namespace {

constexpr size_t kLongest = 80;  // of the part shown in a message

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// ASCII letters and digits, and other characters of words.
bool is_of_word(char c) {
  return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::string shown(std::string_view text) {
  return std::string(text.substr(0, kLongest)) + (text.size() > kLongest ? "..." : "");
}

/// `(word:1.3)`: uses the innermost open bracket.
std::optional<std::string> weight(std::string_view prompt) {
  constexpr size_t kDigits = 12;
  size_t open = std::string_view::npos;
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] == '(' && (i == 0 || prompt[i - 1] != '\\')) {
      open = i;
    } else if (prompt[i] == ')' && open != std::string_view::npos) {
      size_t number = i;
      while (number > open && i - number < kDigits &&
             (is_digit(prompt[number - 1]) || prompt[number - 1] == '.')) {
        --number;
      }
      if (number < i && number > open + 2 && prompt[number - 1] == ':') {
        return shown(prompt.substr(open, i - open + 1));
      }
      open = std::string_view::npos;
    }
  }
  return std::nullopt;
}

/// The first position of `word` that is not part of a longer word.
std::optional<size_t> find_word(std::string_view prompt, std::string_view word) {
  for (size_t at = prompt.find(word); at != std::string_view::npos;
       at = prompt.find(word, at + word.size())) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !is_of_word(prompt[at - 1]);
    const bool ends = !is_of_word(word.back()) || end == prompt.size() || !is_of_word(prompt[end]);
    if (begins && ends) {
      return at;
    }
  }
  return std::nullopt;
}

/// `<lora:name:0.8>` and similar.
std::optional<std::string> network(std::string_view prompt) {
  for (const std::string_view begin : {"<lora:", "<lyco:", "<hypernet:"}) {
    const size_t at = prompt.find(begin);
    const size_t end = at == std::string_view::npos ? at : prompt.find('>', at);
    if (end != std::string_view::npos) {
      return shown(prompt.substr(at, end - at + 1));
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> prompt_syntax(std::string_view prompt) {
  std::vector<std::string> out;
  for (std::optional<std::string> found :
       {weight(prompt),
        find_word(prompt, "BREAK") ? std::optional<std::string>("BREAK") : std::nullopt,
        network(prompt)}) {
    if (found) {
      out.push_back(*std::move(found));
    }
  }
  return out;
}

bool has_and(std::string_view prompt) { return find_word(prompt, "AND").has_value(); }

std::vector<std::string> embedding_names(std::string_view prompt) {
  constexpr std::string_view kWord = "embedding:";
  std::vector<std::string> out;
  while (const std::optional<size_t> at = find_word(prompt, kWord)) {
    prompt.remove_prefix(*at + kWord.size());
    size_t end = 0;
    while (end < prompt.size() &&
           (is_of_word(prompt[end]) || prompt[end] == '-' ||
            (prompt[end] == '.' && end + 1 < prompt.size() && is_of_word(prompt[end + 1])))) {
      ++end;
    }
    if (end > 0) {
      out.push_back(shown(prompt.substr(0, end)));
    }
  }
  return out;
}

}  // namespace kinema::text
