#include "kinema/text/a1111_prompt.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "kinema/core/error.h"

namespace kinema::text {
namespace {

constexpr double kRound = 1.1;
constexpr double kSquare = 1 / 1.1;
constexpr std::string_view kSpaces = " \t\n\r\f\v";
constexpr std::string_view kMarks = "\\()[]:";

bool is_space(char c) { return kSpaces.find(c) != std::string_view::npos; }

bool is_word_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

size_t skip_spaces(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(kSpaces, at), text.size());
}

/// A number of digits, points and a sign; nothing for other text.
std::optional<double> number_of(std::string_view text) {
  const bool plus = text.starts_with('+');
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] =
      std::from_chars(text.data() + (plus ? 1 : 0), end, value, std::chars_format::fixed);
  return error == std::errc() && stop == end && std::isfinite(value) ? std::optional(value)
                                                                     : std::nullopt;
}

/// `: 1.3 )` at `at`: the number, and the position after the bracket.
std::optional<std::pair<double, size_t>> closing_weight(std::string_view text, size_t at) {
  const size_t begin = skip_spaces(text, at + 1);
  const size_t end = std::min(text.find_first_not_of("+-.0123456789", begin), text.size());
  const size_t close = skip_spaces(text, end);
  const std::optional<double> value = number_of(text.substr(begin, end - begin));
  if (!value || close >= text.size() || text[close] != ')') {
    return std::nullopt;
  }
  return std::pair(*value, close + 1);
}

/// The sections of a prompt while it is read. A weight multiplies all parts since its bracket.
class Sections {
 public:
  struct Place {
    size_t section = 0;
    size_t part = 0;
  };

  Place place() const { return {out_.size() - 1, out_.back().size()}; }

  void add(std::string_view text) { out_.back().push_back({std::string(text)}); }

  /// Adds a text that may contain BREAK.
  void add_lines(std::string_view text) {
    constexpr std::string_view kBreak = "BREAK";
    size_t from = 0;
    for (size_t at = text.find(kBreak); at != std::string_view::npos;
         at = text.find(kBreak, at + kBreak.size())) {
      const size_t end = at + kBreak.size();
      const bool begins = at == 0 || !is_word_character(text[at - 1]);
      const bool ends = end == text.size() || !is_word_character(text[end]);
      if (!begins || !ends || at < from) {
        continue;
      }
      size_t last = at;
      while (last > from && is_space(text[last - 1])) {
        --last;
      }
      add(text.substr(from, last - from));
      out_.emplace_back();
      from = skip_spaces(text, end);
    }
    add(text.substr(from));
  }

  void multiply(Place since, double weight) {
    for (size_t s = since.section; s < out_.size(); ++s) {
      for (size_t i = s == since.section ? since.part : 0; i < out_[s].size(); ++i) {
        out_[s][i].weight *= weight;
      }
    }
  }

  /// The sections, with neighbours of one weight joined.
  std::vector<std::vector<WeightedText>> take() {
    for (std::vector<WeightedText>& section : out_) {
      std::vector<WeightedText> joined;
      for (WeightedText& part : section) {
        if (!joined.empty() && joined.back().weight == part.weight) {
          joined.back().text += part.text;
        } else {
          joined.push_back(std::move(part));
        }
      }
      if (joined.empty()) {
        joined.emplace_back();
      }
      section = std::move(joined);
    }
    return std::move(out_);
  }

 private:
  std::vector<std::vector<WeightedText>> out_{1};
};

/// The tag at `at`, without its brackets; empty if there is none.
std::string_view tag_at(std::string_view text, size_t at) {
  if (at >= text.size() || text[at] != '<') {
    return {};
  }
  size_t colon = at + 1;
  while (colon < text.size() && is_word_character(text[colon])) {
    ++colon;
  }
  const size_t end = text.find('>', colon);
  const bool is_tag = colon > at + 1 && colon < text.size() && text[colon] == ':' &&
                      end != std::string_view::npos && end > colon + 1;
  return is_tag ? text.substr(at + 1, end - at - 1) : std::string_view();
}

}  // namespace

std::vector<std::vector<WeightedText>> parse_a1111(std::string_view prompt) {
  constexpr size_t kDeepest = 256;
  const std::string text = without_tags(prompt);
  Sections out;
  std::vector<Sections::Place> round;
  std::vector<Sections::Place> square;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '\\') {
      const bool is_escape = at + 1 < text.size() &&
                             std::string_view("()[]\\").find(text[at + 1]) != std::string::npos;
      out.add(is_escape ? std::string_view(text).substr(at + 1, 1) : std::string_view());
      at += is_escape ? 2 : 1;
    } else if (c == '(' || c == '[') {
      std::vector<Sections::Place>& open = c == '(' ? round : square;
      check(open.size() < kDeepest, "[text] the prompt has more than {} nested brackets", kDeepest);
      open.push_back(out.place());
      ++at;
    } else if (const auto weight = c == ':' && !round.empty()
                                       ? closing_weight(text, at)
                                       : std::optional<std::pair<double, size_t>>()) {
      out.multiply(round.back(), weight->first);
      round.pop_back();
      at = weight->second;
    } else if ((c == ')' && !round.empty()) || (c == ']' && !square.empty())) {
      std::vector<Sections::Place>& open = c == ')' ? round : square;
      out.multiply(open.back(), c == ')' ? kRound : kSquare);
      open.pop_back();
      ++at;
    } else {
      const size_t end = std::min(text.find_first_of(kMarks, at + 1), text.size());
      out.add_lines(std::string_view(text).substr(at, end - at));
      at = end;
    }
  }
  for (const Sections::Place& open : round) {
    out.multiply(open, kRound);
  }
  for (const Sections::Place& open : square) {
    out.multiply(open, kSquare);
  }
  return out.take();
}

std::vector<LoraTag> lora_tags(std::string_view prompt) {
  std::vector<LoraTag> out;
  for (size_t at = prompt.find('<'); at != std::string_view::npos; at = prompt.find('<', at + 1)) {
    if (prompt.find('>', at) == std::string_view::npos) {
      break;
    }
    const std::string_view tag = tag_at(prompt, at);
    if (tag.empty()) {
      continue;
    }
    const size_t colon = tag.find(':');
    const std::string_view kind = tag.substr(0, colon);
    check(kind == "lora" || kind == "lyco",
          "[text] the prompt has `<{}>`: only <lora:name:scale> is supported", tag.substr(0, 80));
    const std::string_view rest = tag.substr(colon + 1);
    const size_t second = rest.find(':');
    LoraTag made{.name = std::string(rest.substr(0, second))};
    if (second != std::string_view::npos) {
      const std::optional<double> scale = number_of(rest.substr(second + 1));
      check(scale.has_value(), "[text] the prompt has `<{}>`, expected one scale: <lora:{}:0.8>",
            tag.substr(0, 80), made.name);
      made.scale = *scale;
    }
    check(!made.name.empty(), "[text] the prompt has `<{}>`, without a name", tag.substr(0, 80));
    out.push_back(std::move(made));
    at += tag.size();
  }
  return out;
}

std::string without_tags(std::string_view prompt) {
  std::string out;
  // No `>` is left to search for after the last one, so that the time is linear.
  const size_t last = prompt.rfind('>');
  for (size_t at = 0; at < prompt.size();) {
    const std::string_view tag =
        last != std::string_view::npos && at < last ? tag_at(prompt, at) : std::string_view();
    if (!tag.empty()) {
      at += tag.size() + 2;
    } else {
      out += prompt[at++];
    }
  }
  return out;
}

}  // namespace kinema::text
