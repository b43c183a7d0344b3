#include "kinema/core/pattern.h"

#include <unicode/regex.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cstdint>

#include "kinema/core/error.h"

namespace kinema {
namespace {

constexpr size_t kLongest = 1000;
// ICU calls back after each 10,000 states of its matcher, which take a tenth of a millisecond; a
// match without such a call takes a hundredth of one.
constexpr int64_t kOfCall = 10;
// The limit of one match.
constexpr int64_t kMostSteps = 100 * kOfCall;
constexpr int32_t kMostStackBytes = 1 << 20;

icu::UnicodeString unicode(std::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

/// `(?P<name>`, Python's notation, as `(?<name>`.
std::string without_python(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    out += pattern[i];
    if (pattern[i] == '\\' && i + 1 < pattern.size()) {
      out += pattern[++i];
    } else if (pattern.substr(i).starts_with("(?P<")) {
      out += '?';
      i += 2;
    }
  }
  return out;
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_punctuation(char c) { return c > ' ' && c < 0x7f && !is_letter_or_digit(c); }

UBool may_go_on(const void* steps, int32_t /*steps_of_this_match*/) {
  auto& left = *static_cast<std::atomic<int64_t>*>(const_cast<void*>(steps));
  return static_cast<UBool>((left -= kOfCall) >= 0);
}

}  // namespace

struct Pattern::Compiled {
  std::unique_ptr<icu::RegexPattern> pattern;
};

Pattern::Pattern(std::string_view pattern, Fits fits) : Pattern(pattern, fits, nullptr) {}

Pattern::Pattern(std::string_view pattern, Fits fits, PatternBudget& budget)
    : Pattern(pattern, fits, &budget) {}

Pattern::Pattern(std::string_view pattern, Fits fits, PatternBudget* budget)
    : pattern_(pattern), fits_(fits) {
  check(pattern.size() <= kLongest,
        "[pattern] a regular expression of {} characters, expected at most {}", pattern.size(),
        kLongest);
  if (read_name(pattern)) {
    return;
  }
  const auto size = static_cast<int64_t>(pattern.size());
  check(budget == nullptr || (budget->characters_ -= size) >= 0,
        "[pattern] the regular expressions up to `{}` have more than {} characters together",
        pattern, PatternBudget::kCharacters);
  const std::string whole = fits == Fits::END ? "(.*\\.)?(" + pattern_ + ")" : pattern_;
  UErrorCode status = U_ZERO_ERROR;
  UParseError where{};
  compiled_ = std::make_shared<const Compiled>(Compiled{std::unique_ptr<icu::RegexPattern>(
      icu::RegexPattern::compile(unicode(without_python(whole)), 0, where, status))});
  check(U_SUCCESS(status) != 0, "[pattern] `{}` is not a regular expression ({}, at character {})",
        pattern, u_errorName(status), where.offset);
}

bool Pattern::read_name(std::string_view pattern) {
  const bool is_whole = pattern.starts_with('^');
  pattern.remove_prefix(is_whole ? 1 : 0);
  if (pattern.ends_with('$') && !pattern.ends_with("\\$")) {
    pattern.remove_suffix(1);
  }
  std::vector<Character> name;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size() && is_punctuation(pattern[i + 1])) {
      name.push_back({pattern[++i], false});
    } else if (is_letter_or_digit(c) || c == '_' || c == '-' || c == '/' || c == '.') {
      name.push_back({c, c == '.'});
    } else {
      return false;
    }
  }
  name_ = std::move(name);
  fits_ = is_whole ? Fits::ALL : fits_;
  return !name_.empty();
}

bool Pattern::matches_name(std::string_view text) const {
  if (text.size() != name_.size()) {
    const bool has_end = fits_ == Fits::END && text.size() > name_.size();
    const size_t begin = has_end ? text.size() - name_.size() : 0;
    if (!has_end || text[begin - 1] != '.') {
      return false;
    }
    text = text.substr(begin);
  }
  return std::equal(text.begin(), text.end(), name_.begin(), [](char c, const Character& each) {
    return each.any ? c != '\n' && c != '\r' : each.value == c;
  });
}

bool Pattern::matches(std::string_view text) const {
  std::atomic<int64_t> steps = kMostSteps;
  return matches(text, steps);
}

bool Pattern::matches(std::string_view text, PatternBudget& budget) const {
  if (name_.empty()) {
    --budget.matches_;
  }
  return matches(text, budget.matches_);
}

bool Pattern::matches(std::string_view text, std::atomic<int64_t>& steps) const {
  if (!name_.empty()) {
    return matches_name(text);
  }
  const icu::UnicodeString whole = unicode(text);
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::RegexMatcher> matcher(compiled_->pattern->matcher(whole, status));
  bool found = false;
  if (U_SUCCESS(status) != 0) {
    matcher->setMatchCallback(may_go_on, &steps, status);
    matcher->setStackLimit(kMostStackBytes, status);
    found = matcher->matches(status) != 0;
  }
  check(U_SUCCESS(status) != 0 && steps >= 0,
        "[pattern] `{}` takes too long to be matched with `{}`, after other patterns and names of "
        "the "
        "same file\n  plain names, without operators, cost nothing",
        pattern_, text.substr(0, 100));
  return found;
}

}  // namespace kinema
