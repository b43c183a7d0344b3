#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kinema::text {

/// Prompt syntax of other programs (AUTOMATIC1111's web UI, ComfyUI) that kinema encodes as text: a
/// weight `(word:1.3)`, `BREAK`, `<lora:name:0.8>` and `embedding:name`. Returns the first of each
/// kind, in linear time.
std::vector<std::string> prompt_syntax(std::string_view prompt);

}  // namespace kinema::text
