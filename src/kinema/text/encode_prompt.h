#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/text/added_tokens.h"
#include "kinema/text/tokens.h"
#include "kinema/text/unicode.h"

namespace kinema::text {

/// `first`, the tokens of a prompt and `end`, cut to `max_length`. `section` adds those of what
/// stands between the added tokens `raw`. Throws an Error when the prompt is not UTF-8.
template <typename Section>
Tokens encode_prompt(std::string_view prompt, const AddedTokens& raw, std::vector<int64_t> first,
                     int64_t end, int64_t max_length, const Section& section) {
  const size_t wrong = invalid_utf8_at(prompt);
  check(wrong == std::string_view::npos, "[text] the prompt is not UTF-8: byte {} is 0x{:02x}",
        wrong, wrong < prompt.size() ? static_cast<unsigned char>(prompt[wrong]) : 0);
  Tokens out{.ids = std::move(first)};
  raw.split(
      prompt, [&](std::string_view part) { section(part, out.ids); },
      [&](int64_t id) { out.ids.push_back(id); });
  const auto kept = std::min(static_cast<int64_t>(out.ids.size()), max_length - 1);
  out.dropped = static_cast<int64_t>(out.ids.size()) - kept;
  out.ids.resize(static_cast<size_t>(kept));
  out.ids.push_back(end);
  return out;
}

}  // namespace kinema::text
