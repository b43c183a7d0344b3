#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kinema::text {

/// What of a prompt other programs (AUTOMATIC1111's web UI, ComfyUI) read as more than words, and
/// encoders here as letters: a weight `(word:1.3)`, `BREAK`, `<lora:name:0.8>` and
/// `embedding:name`. The first of each kind, as the prompt has it; in time linear in its length.
std::vector<std::string> prompt_syntax(std::string_view prompt);

}  // namespace kinema::text
