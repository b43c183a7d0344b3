#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::text {

/// How a prompt is read: as text, or as in AUTOMATIC1111's web UI (parse_a1111, prompt_schedule) or
/// in the program compel (parse_compel).
enum class PromptSyntax : uint8_t { PLAIN, A1111, COMPEL };

/// Syntax of other programs that PLAIN reads as text: a weight `(word:1.3)`, `BREAK`,
/// `<lora:name:0.8>` and `embedding:name`. Returns the first of each kind, in linear time.
std::vector<std::string> prompt_syntax(std::string_view prompt);

}  // namespace kinema::text
