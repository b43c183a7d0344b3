#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::text {

/// The text of a prompt up to a step.
struct TextUntil {
  int64_t last_step = 0;  // counted from 1
  std::string text;

  bool operator==(const TextUntil&) const = default;
};

/// AUTOMATIC1111's prompt editing, for a sampler with `steps` steps: `[from:to:when]`, `[to:when]`
/// and `[from::when]` change the text after step `when` (a whole number of steps, or with a point a
/// part of all steps); `[a|b|c]` takes turns, one step each. They nest, and other brackets stay.
/// The texts are those of consecutive steps; the last one's last_step is `steps`, and there is one
/// entry for a prompt without such brackets. Brackets without a partner are text.
std::vector<TextUntil> prompt_schedule(std::string_view prompt, int64_t steps);

}  // namespace kinema::text
