#pragma once

#include <string>
#include <vector>

#include "kinema/config/config.h"

namespace kinema::resolve {

/// The prompts of prompt_file, one per line, or the single prompt. Throws an Error that names the
/// file, and the line that is not valid text.
std::vector<std::string> read_prompts(const config::Loaded& loaded);

/// A log line if prompts contain syntax of other programs, such as weights (text::prompt_syntax).
std::vector<std::string> prompt_notices(const config::Loaded& loaded);

/// A log line if no prompt was given, else nothing.
std::vector<std::string> default_prompt_notice(const config::Loaded& loaded);

}  // namespace kinema::resolve
