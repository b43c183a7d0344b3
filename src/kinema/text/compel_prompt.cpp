#include "kinema/text/compel_prompt.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "kinema/core/error.h"

namespace kinema::text {
namespace {

constexpr double kPlus = 1.1;
constexpr double kMinus = 0.9;
constexpr std::string_view kWhite = " \t\n\r";           // skipped before each element
constexpr std::string_view kNoWord = " \t\n\r\x0b\x0c";  // ends a word
constexpr std::string_view kSyntax = "()\",.+-=";
// Brackets and quotes deeper than this are text: the functions below call themselves for each
// level.
constexpr int kDeepest = 64;

using Parts = std::vector<WeightedText>;

bool is_in(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

bool is_keyword(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '-';
}

/// What an element of the grammar matched, and the position after it.
struct Match {
  Parts parts;
  size_t end = 0;
};
using Found = std::optional<Match>;

/// Compel replaces these escapes only.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 1 < text.size() && is_in(text[i + 1], "()\"");
    out += text[escape ? ++i : i];
  }
  return out;
}

/// Neighbours of one weight are joined by a space.
Parts fused(Parts parts) {
  Parts out;
  for (WeightedText& part : parts) {
    if (!out.empty() && out.back().weight == part.weight) {
      out.back().text += " " + part.text;
    } else {
      out.push_back(std::move(part));
    }
  }
  return out;
}

/// An ordered choice of elements at each position, without a second try after an element matched
/// (pyparsing's MatchFirst). Results at a position are cached, so that nested brackets take linear
/// time at each depth.
class Grammar {
 public:
  Grammar(std::string_view text, int depth, std::vector<LoraTag>& loras)
      : text_(text), depth_(depth), loras_(loras) {}

  /// `("a", "b").and(...)`; the rest of the text is ignored, as in compel.
  std::optional<std::vector<CompelPrompt::Clause>> conjunction() {
    for (const char* name : {".and", ".add"}) {
      if (auto found = operation(name)) {
        check_count(found->weights.size(), found->texts.size(), name);
        std::vector<CompelPrompt::Clause> out;
        for (size_t i = 0; i < found->texts.size(); ++i) {
          out.push_back({.texts = {fused(std::move(found->texts[i]))},
                         .shares = {1.0},
                         .weight = found->weights.empty() ? 1.0 : found->weights[i]});
        }
        return out;
      }
    }
    return std::nullopt;
  }

  CompelPrompt::Clause clause() {
    size_t at = 0;
    while (const std::optional<size_t> lora = lora_at(at)) {
      at = *lora;
    }
    start_ = at;
    if (auto found = operation(".blend")) {
      check_count(found->weights.size(), found->texts.size(), ".blend");
      at = found->end;
      while (const std::optional<size_t> lora = lora_at(at)) {
        at = *lora;
      }
      check(skip(at) == text_.size(),
            "[text] the prompt has text after `.blend(...)`: {}\n  a blend is the whole prompt",
            text_.substr(at, 80));
      CompelPrompt::Clause out{
          .texts = {}, .shares = found->weights, .normalize = found->normalize};
      for (Parts& each : found->texts) {
        out.texts.push_back(fused(std::move(each)));
      }
      out.shares.resize(out.texts.size(), 1.0);
      return out;
    }
    return {.texts = {fused(prompt(at))}, .shares = {1.0}};
  }

  /// Words, quotes and weights up to the end of the text; everything matches.
  Parts prompt(size_t at) {
    Parts out;
    while (at < text_.size()) {
      check_swap(at);
      if (const auto lora = lora_at(at)) {
        at = *lora;
        continue;
      }
      Found found = attention(at);
      found = found ? std::move(found) : quoted(at);
      found = found ? std::move(found) : bracket(at);
      if (!found && !is_in(text_[at], kNoWord)) {
        const size_t end = std::min(text_.find_first_of(kNoWord, at), text_.size());
        found = Match{{{unescaped(text_.substr(at, end - at))}}, end};
      }
      if (found) {
        append(out, *std::move(found));
        at = found->end;
      } else {
        ++at;  // white space
      }
    }
    return out;
  }

 private:
  struct Operation {
    std::vector<Parts> texts;
    std::vector<double> weights;
    bool normalize = true;
    size_t end = 0;
  };

  static void check_count(size_t weights, size_t texts, std::string_view name) {
    check(weights == 0 || weights == texts,
          "[text] the prompt's `{}` has {} weights for {} texts, expected as many", name, weights,
          texts);
  }

  static void append(Parts& to, Match match) {
    for (WeightedText& part : match.parts) {
      to.push_back(std::move(part));
    }
  }

  size_t skip(size_t at) const {
    return std::min(text_.find_first_not_of(kWhite, at), text_.size());
  }

  /// The position after `word`, with white space before it.
  std::optional<size_t> literal(size_t at, std::string_view word) const {
    at = skip(at);
    return text_.substr(at).starts_with(word) ? std::optional(at + word.size()) : std::nullopt;
  }

  /// A word without syntax; escaped syntax is text.
  Found word(size_t at) const {
    const size_t begin = skip(at);
    size_t end = begin;
    while (end < text_.size() && !is_in(text_[end], kNoWord)) {
      const char c = text_[end];
      const bool has_next = end + 1 < text_.size();
      if (c == '\\' && has_next && is_in(text_[end + 1], kSyntax)) {
        end += 2;
      } else if (c == '-' || c == '+') {
        if (!has_next || is_in(text_[end + 1], kWhite) || is_in(text_[end + 1], kSyntax)) {
          break;
        }
        ++end;
      } else if (is_in(c, kSyntax)) {
        break;
      } else {
        ++end;
      }
    }
    return end == begin ? Found()
                        : Found(Match{{{unescaped(text_.substr(begin, end - begin))}}, end});
  }

  /// 1.3, .5, 2 or -1, and the position after it.
  std::optional<std::pair<double, size_t>> number(size_t at) const {
    at = skip(at);
    const auto digits = [this](size_t from) {
      return std::min(text_.find_first_not_of("0123456789", from), text_.size());
    };
    const size_t sign = at < text_.size() && is_in(text_[at], "+-") ? 1 : 0;
    const size_t whole = digits(at + sign);
    size_t end = whole;
    if (whole < text_.size() && text_[whole] == '.' &&
        (whole > at + sign || digits(whole + 1) > whole + 1)) {
      end = digits(whole + 1);
    } else if (whole == at + sign || (sign == 1 && text_[at] == '+')) {
      return std::nullopt;
    }
    double value = 0;
    const size_t from = at + (sign == 1 && text_[at] == '+' ? 1 : 0);
    const auto [stop, error] =
        std::from_chars(text_.data() + from, text_.data() + end, value, std::chars_format::fixed);
    return error == std::errc() ? std::optional(std::pair(value, end)) : std::nullopt;
  }

  /// `++`, `--` or, if `numbers`, a number: the factor of the weight.
  std::optional<std::pair<double, size_t>> factor(size_t at, bool numbers) const {
    const size_t begin = skip(at);
    for (const auto& [sign, base] : {std::pair('+', kPlus), std::pair('-', kMinus)}) {
      const size_t end = std::min(text_.find_first_not_of(sign, begin), text_.size());
      if (end > begin) {
        return std::pair(std::pow(base, static_cast<double>(end - begin)), end);
      }
    }
    return numbers ? number(at) : std::nullopt;
  }

  /// Words, brackets and quotes, with commas and points, while they match.
  Match fragments(size_t at) {
    Match out{.end = at};
    for (;;) {
      check_swap(out.end);
      if (const auto lora = lora_at(out.end)) {
        out.end = *lora;
        continue;
      }
      Found found = attention(out.end);
      found = found ? std::move(found) : bracket(out.end);
      found = found ? std::move(found) : quoted(out.end);
      found = found ? std::move(found) : word(out.end);
      if (const size_t next = skip(out.end);
          !found && next < text_.size() && is_in(text_[next], ",.")) {
        found = Match{{{std::string(1, text_[next])}}, next + 1};
      }
      if (!found) {
        return out;
      }
      out.end = found->end;
      append(out.parts, *std::move(found));
    }
  }

  Found cached(std::map<size_t, Found>& cache, size_t at, const auto& compute) {
    const size_t begin = skip(at);
    const auto known = cache.find(begin);
    if (known != cache.end()) {
      return known->second;
    }
    Found found = compute(begin);
    cache.emplace(begin, found);
    return found;
  }

  /// `(words)`
  Found bracket(size_t at) {
    return cached(brackets_, at, [&](size_t begin) -> Found {
      if (begin == text_.size() || text_[begin] != '(' || level_ + depth_ >= kDeepest) {
        return std::nullopt;
      }
      ++level_;
      Match inner = fragments(begin + 1);
      --level_;
      const std::optional<size_t> end = literal(inner.end, ")");
      if (!end) {
        return std::nullopt;
      }
      inner.end = *end;
      return inner;
    });
  }

  /// The text in quotes at `begin`, and its end.
  std::optional<std::pair<std::string, size_t>> quote(size_t begin) const {
    if (begin == text_.size() || text_[begin] != '"') {
      return std::nullopt;
    }
    size_t end = std::string_view::npos;
    for (size_t i = begin + 1; i < text_.size() && !is_in(text_[i], "\n\r"); ++i) {
      if (text_[i] == '"') {
        end = i;
        if (text_[i - 1] != '\\' || i - 1 == begin) {
          break;  // else it closes the quote only if no other one does
        }
      }
    }
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    std::string inside;
    for (size_t i = begin + 1; i < end; ++i) {
      const bool escaped = text_[i] == '\\' && i + 1 < end && text_[i + 1] == '"';
      i += escaped ? 1 : 0;
      inside += text_[i] == '"' ? "\\\"" : std::string(1, text_[i]);
    }
    return std::pair(std::move(inside), end + 1);
  }

  static bool is_blank(std::string_view text) {
    return text.find_first_not_of(kNoWord) == std::string_view::npos;
  }

  /// `"words"` with the syntax of fragments.
  Found quoted(size_t at) {
    return cached(quotes_, at, [&](size_t begin) -> Found {
      const auto text = quote(begin);
      if (!text || level_ + depth_ >= kDeepest) {
        return std::nullopt;
      }
      if (is_blank(text->first)) {
        return Match{{{""}}, text->second};
      }
      Grammar inside(text->first, level_ + depth_ + 1, loras_);
      Match out = inside.fragments(0);
      if (inside.skip(out.end) != text->first.size()) {
        return std::nullopt;
      }
      out.end = text->second;
      return out;
    });
  }

  /// `"words"` with the syntax of prompts.
  Found quoted_prompt(size_t at) {
    const auto text = quote(skip(at));
    if (!text || level_ + depth_ >= kDeepest) {
      return std::nullopt;
    }
    if (is_blank(text->first)) {
      return Match{{{""}}, text->second};
    }
    Grammar inside(text->first, level_ + depth_ + 1, loras_);
    return Match{inside.prompt(0), text->second};
  }

  Found target(size_t at) {
    Found found = quoted(at);
    found = found ? std::move(found) : bracket(at);
    return found ? std::move(found) : word(at);
  }

  /// A target with a weight.
  Found attention(size_t at) {
    Found found = target(at);
    if (!found) {
      return std::nullopt;
    }
    std::optional<std::pair<double, size_t>> weight;
    if (const auto name = literal(found->end, ".attend")) {
      const auto open = literal(*name, "(");
      weight = open ? factor(*open, true) : std::nullopt;
      const auto close = weight ? literal(weight->second, ")") : std::nullopt;
      weight = close ? std::optional(std::pair(weight->first, *close)) : std::nullopt;
    }
    const char first = text_[skip(at)];
    const bool is_white = found->end < text_.size() && is_in(text_[found->end], kWhite);
    if (!weight && !is_white) {
      // A bracket or quote that did not match is a word in compel only if it has no syntax.
      weight = factor(found->end, first == '(' || first == '"');
    }
    if (!weight) {
      return std::nullopt;
    }
    for (WeightedText& part : found->parts) {
      part.weight *= weight->first;
    }
    found->end = weight->second;
    return found;
  }

  void check_swap(size_t at) {
    if (text_.find(".swap") == std::string_view::npos) {
      return;
    }
    const Found found = target(at);
    const auto name = found ? literal(found->end, ".swap") : std::nullopt;
    check(!name || !literal(*name, "("),
          "[text] the prompt has `.swap(...)`, which edits attention maps and is not supported");
  }

  /// `withLora(name, 0.8)`: adds it, and returns the position after it.
  std::optional<size_t> lora_at(size_t at) {
    std::optional<size_t> next = literal(at, "useLora");
    next = next ? next : literal(at, "withLora");
    next = next ? literal(*next, "(") : std::nullopt;
    if (!next) {
      return std::nullopt;
    }
    const size_t begin = skip(*next);
    size_t end = begin;
    while (end < text_.size() && is_keyword(text_[end])) {
      ++end;
    }
    LoraTag made{.name = std::string(text_.substr(begin, end - begin))};
    size_t last = end;
    if (const auto comma = literal(end, ",")) {
      if (const auto scale = number(*comma)) {
        made.scale = scale->first;
        last = scale->second;
      }
    }
    const auto close = end > begin ? literal(last, ")") : std::nullopt;
    if (close && std::ranges::find(seen_, begin) == seen_.end()) {
      seen_.push_back(begin);
      loras_.push_back(std::move(made));
    }
    return close;
  }

  /// `("a", "b").name(0.7, 0.3)`
  std::optional<Operation> operation(std::string_view name) {
    auto at = literal(start_, "(");
    Operation out;
    while (at) {
      Found found = target(*at);
      found = found ? std::move(found) : quoted_prompt(*at);
      if (!found) {
        return std::nullopt;
      }
      out.texts.push_back(std::move(found->parts));
      at = literal(found->end, ",");
      if (!at) {
        at = literal(found->end, ")");
        break;
      }
    }
    at = at ? literal(*at, name) : std::nullopt;
    at = at ? literal(*at, "(") : std::nullopt;
    return at ? arguments(*at, name, std::move(out)) : std::nullopt;
  }

  /// The weights of an operation, and `no_normalize`.
  std::optional<Operation> arguments(size_t at, std::string_view name, Operation out) {
    while (!literal(at, ")")) {
      if (const auto weight = number(at)) {
        out.weights.push_back(weight->first);
        at = weight->second;
      } else if (const auto word = literal(at, "no_normalize"); word && name == ".blend") {
        out.normalize = false;
        at = *word;
      } else {
        return std::nullopt;
      }
      if (const auto comma = literal(at, ",")) {
        at = *comma;
      } else if (!literal(at, ")")) {
        return std::nullopt;
      }
    }
    out.end = *literal(at, ")");
    return out;
  }

  std::string_view text_;
  int depth_;      // of the quotes around this text
  int level_ = 0;  // of the brackets around the position
  size_t start_ = 0;
  std::vector<LoraTag>& loras_;
  std::vector<size_t> seen_;  // positions of LoRA names
  std::map<size_t, Found> brackets_;
  std::map<size_t, Found> quotes_;
};

/// Compel puts a space after each comma.
std::string with_spaces(std::string_view prompt) {
  std::string out;
  for (size_t i = 0; i < prompt.size(); ++i) {
    out += prompt[i];
    if (prompt[i] == ',' && i + 1 < prompt.size() && !is_in(prompt[i + 1], kNoWord)) {
      out += ' ';
      out += prompt[++i];
    }
  }
  return out;
}

}  // namespace

CompelPrompt parse_compel(std::string_view prompt) {
  const std::string text = with_spaces(prompt);
  CompelPrompt out;
  if (text.find_first_not_of(kNoWord) == std::string::npos) {
    out.clauses = {{.texts = {{{""}}}, .shares = {1.0}}};
    return out;
  }
  Grammar grammar(text, 0, out.loras);
  if (auto clauses = grammar.conjunction()) {
    out.clauses = *std::move(clauses);
    return out;
  }
  out.clauses = {grammar.clause()};
  std::erase_if(out.clauses.front().texts, [](const Parts& parts) { return parts.empty(); });
  if (out.clauses.front().texts.empty()) {
    out.clauses = {{.texts = {{{""}}}, .shares = {1.0}}};
  }
  return out;
}

}  // namespace kinema::text
