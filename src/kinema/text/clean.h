#pragma once

#include <string>
#include <string_view>

namespace kinema::text {

/// The prompt cleaned as in diffusers' Wan pipelines: repaired as by ftfy's `fix_text`, HTML
/// entities decoded twice, runs of white space replaced by one space, none at the ends.
///
/// Throws an Error if the prompt is not UTF-8.
std::string clean_prompt(std::string_view prompt);

}  // namespace kinema::text
