#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "kinema/encoders/text_encoder.h"

namespace kinema::encoders {

/// The texts of prompts for the first of two encoders, and for the second.
inline std::vector<std::string> first_texts(std::span<const Prompt> prompts) {
  std::vector<std::string> texts;
  for (const Prompt& prompt : prompts) {
    texts.push_back(prompt.text);
  }
  return texts;
}

inline std::vector<std::string> second_texts(std::span<const Prompt> prompts) {
  std::vector<std::string> texts;
  for (const Prompt& prompt : prompts) {
    texts.push_back(prompt.for_second());
  }
  return texts;
}

/// True if all are without syntax.
inline bool all_plain(std::span<const Prompt> prompts) {
  return std::ranges::all_of(
      prompts, [](const Prompt& prompt) { return prompt.syntax == text::PromptSyntax::PLAIN; });
}

}  // namespace kinema::encoders
