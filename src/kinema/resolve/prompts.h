#pragma once

#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/text/prompt_syntax.h"

namespace kinema::resolve {

/// The prompts of prompt_file, one per line, or the single prompt. Throws an Error that names the
/// file, and the line that is not valid text.
std::vector<std::string> read_prompts(const config::Loaded& loaded);

/// The configuration's prompt_syntax.
text::PromptSyntax prompt_syntax(const config::Config& config);

/// The configuration with the LoRA files of lora_folder that prompts name added to lora_config; all
/// prompts must name the same ones. Throws an Error that names a file that does not exist, with the
/// most similar name.
config::Loaded with_prompt_loras(config::Loaded loaded);

/// A log line if prompts contain syntax that is read as text (text::prompt_syntax).
std::vector<std::string> prompt_notices(const config::Loaded& loaded);

/// A log line if no prompt was given, else nothing.
std::vector<std::string> default_prompt_notice(const config::Loaded& loaded);

}  // namespace kinema::resolve
