#include "kinema/weights/module_names.h"

#include <unicode/regex.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <memory>

#include "kinema/core/edit_distance.h"
#include "kinema/core/error.h"

namespace kinema::weights {
namespace {

constexpr size_t kLongestPattern = 2000;
constexpr int32_t kMostSteps = 100;  // of about 10,000 states of the matcher each
constexpr int32_t kMostStackBytes = 1 << 20;

std::unique_ptr<icu::RegexPattern> compiled(const std::string& pattern, UErrorCode& status) {
  UParseError where;
  return std::unique_ptr<icu::RegexPattern>(
      icu::RegexPattern::compile(icu::UnicodeString::fromUTF8(pattern), 0, where, status));
}

std::string_view end_of(std::string_view name, size_t length) {
  return name.size() < length ? name : name.substr(name.size() - length);
}

bool is_end_of(std::string_view word, std::string_view name) {
  return name.size() > word.size() && name.ends_with(word) &&
         name[name.size() - word.size() - 1] == '.';
}

}  // namespace

NamePattern::NamePattern(std::string_view key, const std::string& pattern)
    : key_(key), pattern_(pattern) {
  check(pattern.size() <= kLongestPattern, "[config] {} has a pattern of {} characters, at most {}",
        key, pattern.size(), kLongestPattern);
  UErrorCode status = U_ZERO_ERROR;
  compiled(pattern, status);
  check(U_SUCCESS(status) != 0, "[config] {}: `{}` is no regular expression ({})", key, pattern,
        u_errorName(status));
}

bool NamePattern::matches(std::string_view name) const {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::RegexPattern> pattern = compiled(pattern_, status);
  const icu::UnicodeString text = icu::UnicodeString::fromUTF8(
      icu::StringPiece(name.data(), static_cast<int32_t>(name.size())));
  const std::unique_ptr<icu::RegexMatcher> matcher(
      U_SUCCESS(status) != 0 ? pattern->matcher(text, status) : nullptr);
  bool found = false;
  if (U_SUCCESS(status) != 0) {
    matcher->setTimeLimit(kMostSteps, status);
    matcher->setStackLimit(kMostStackBytes, status);
    found = matcher->matches(status) != 0;
  }
  check(U_SUCCESS(status) != 0, "[config] {}: the pattern `{}` cannot be matched with `{}` ({})",
        key_, pattern_, name, u_errorName(status));
  return found;
}

std::vector<std::string> named_by(std::span<const std::string> names,
                                  std::span<const std::string> words, std::string_view key) {
  std::vector<bool> is_meant(names.size());
  for (const std::string& word : words) {
    bool any = false;
    const auto mean = [&](const auto& is_it) {
      for (size_t i = 0; i < names.size(); ++i) {
        if (is_it(names[i])) {
          is_meant[i] = any = true;
        }
      }
    };
    mean([&](const std::string& name) { return name == word || is_end_of(word, name); });
    if (!any) {
      const NamePattern pattern(key, word);
      mean([&](const std::string& name) { return pattern.matches(name); });
    }
    if (!any) {
      check(!names.empty(), "[config] {}: there is no module that `{}` could mean", key, word);
      const std::string& nearest = *std::ranges::min_element(names, {}, [&](const auto& name) {
        return edit_distance(word, end_of(name, word.size()));
      });
      fail(
          "[config] {}: no module of the transformer is named, or ends with, `{}`; the nearest is "
          "`{}`",
          key, word, nearest);
    }
  }
  std::vector<std::string> out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (is_meant[i]) {
      out.push_back(names[i]);
    }
  }
  return out;
}

}  // namespace kinema::weights
