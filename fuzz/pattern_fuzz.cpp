// A line as a regular expression and the next as a text: an Error, or an answer that does not
// depend on whether the matcher was needed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/core/pattern.h"

namespace {

using kinema::Pattern;

std::optional<bool> answer(const std::string& pattern, std::string_view text, Pattern::Fits fits) {
  try {
    kinema::PatternBudget budget;
    return Pattern(pattern, fits, budget).matches(text, budget);
  } catch (const kinema::Error&) {
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), input.size());
  const std::string pattern(input.substr(0, line));
  const std::string_view text = input.substr(std::min(line + 1, input.size()));
  const bool plain =
      std::ranges::all_of(input, [](char c) { return c == '\n' || (c >= 32 && c < 127); });
  for (const Pattern::Fits fits : {Pattern::Fits::ALL, Pattern::Fits::END}) {
    const std::optional<bool> given = answer(pattern, text, fits);
    const std::optional<bool> grouped = answer("(?:" + pattern + ")", text, fits);
    if (plain && given && grouped && *given != *grouped) {
      std::abort();
    }
  }
  return 0;
}
