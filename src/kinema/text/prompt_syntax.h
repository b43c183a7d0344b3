#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::text {

/// How a prompt is read: as text, or as in AUTOMATIC1111's web UI (parse_a1111, prompt_schedule) or
/// in the program compel (parse_compel).
enum class PromptSyntax : uint8_t { PLAIN, A1111, COMPEL };

/// Syntax of other programs that PLAIN reads as text: a weight `(word:1.3)`, `BREAK` and
/// `<lora:name:0.8>`. Returns the first of each kind, in linear time.
std::vector<std::string> prompt_syntax(std::string_view prompt);

/// True if AUTOMATIC1111's web UI would combine the prompts on both sides of a word `AND`.
bool has_and(std::string_view prompt);

/// The names that follow `embedding:`, as ComfyUI's prompts have them.
std::vector<std::string> embedding_names(std::string_view prompt);

}  // namespace kinema::text
