#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kinema/text/weighted_text.h"

/// The prompt syntax of AUTOMATIC1111's web UI.
namespace kinema::text {

/// `(word)` has the weight 1.1, `[word]` 1 / 1.1, `(word:1.3)` 1.3; brackets nest, their weights
/// are multiplied, and `\(` is a bracket of the text. `BREAK` starts a new section. Brackets
/// without a partner weight the rest of the prompt. Returns at least one section, each with at
/// least one part; neighbouring parts have different weights. Takes linear time for a bounded depth
/// of brackets.
std::vector<std::vector<WeightedText>> parse_a1111(std::string_view prompt);

/// `<lora:name:0.8>`
struct LoraTag {
  std::string name;
  double scale = 1.0;

  bool operator==(const LoraTag&) const = default;
};

/// The LoRA files that a prompt names (`<lora:name>`, `<lora:name:0.8>`, `<lyco:...>`), in order.
/// Throws an Error for a tag with other arguments, and for other kinds (`<hypernet:...>`).
std::vector<LoraTag> lora_tags(std::string_view prompt);

/// The prompt without its tags `<word:...>`.
std::string without_tags(std::string_view prompt);

}  // namespace kinema::text
