#pragma once

#include <string>
#include <string_view>

namespace kinema::text {

/// The prompt as diffusers' Wan pipelines give it to the tokenizer: repaired as ftfy's `fix_text`
/// does, HTML entities read twice, runs of white space as one space, none at the ends.
///
/// Throws an Error when the prompt is not UTF-8.
std::string clean_prompt(std::string_view prompt);

}  // namespace kinema::text
