#include "kinema/core/pattern.h"

#include <unicode/regex.h>
#include <unicode/unistr.h>

#include <cstdint>

#include "kinema/core/error.h"

namespace kinema {
namespace {

constexpr size_t kLongest = 1000;
// What a match may take: ICU's unit of time is some 10,000 states of its matcher.
constexpr int32_t kMostTime = 100;
constexpr int32_t kMostStackBytes = 1 << 20;

icu::UnicodeString unicode(std::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

/// Python's `(?P<name>` is everybody else's `(?<name>`.
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

}  // namespace

struct Pattern::Compiled {
  std::unique_ptr<icu::RegexPattern> pattern;
};

Pattern::Pattern(std::string_view pattern) : pattern_(pattern) {
  check(pattern.size() <= kLongest,
        "[pattern] a regular expression of {} characters, expected at most {}", pattern.size(),
        kLongest);
  UErrorCode status = U_ZERO_ERROR;
  UParseError where{};
  compiled_ = std::make_shared<const Compiled>(Compiled{std::unique_ptr<icu::RegexPattern>(
      icu::RegexPattern::compile(unicode(without_python(pattern)), 0, where, status))});
  check(U_SUCCESS(status) != 0, "[pattern] `{}` is no regular expression ({}, at character {})",
        pattern, u_errorName(status), where.offset);
}

bool Pattern::matches(std::string_view text) const {
  const icu::UnicodeString whole = unicode(text);
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::RegexMatcher> matcher(compiled_->pattern->matcher(whole, status));
  bool found = false;
  if (U_SUCCESS(status) != 0) {
    matcher->setTimeLimit(kMostTime, status);
    matcher->setStackLimit(kMostStackBytes, status);
    found = matcher->matches(status) != 0;
  }
  check(U_SUCCESS(status) != 0, "[pattern] `{}` takes too long to be matched with `{}` ({})",
        pattern_, text.substr(0, 100), u_errorName(status));
  return found;
}

}  // namespace kinema
