// Any bytes as a prompt: an Error when they are not UTF-8, else clean text that is, without white
// space at its ends or twice in a row, and that a tokenizer takes. The syntax of other programs is
// read from any bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/text/a1111_prompt.h"
#include "kinema/text/clean.h"
#include "kinema/text/compel_prompt.h"
#include "kinema/text/prompt_schedule.h"
#include "kinema/text/prompt_syntax.h"
#include "kinema/text/tokenizer.h"
#include "kinema/text/unicode.h"

namespace {

const kinema::text::Tokenizer& tokenizer() {
  static const kinema::text::Tokenizer made = [] {
    kinema::text::TokenizerParts parts;
    parts.pieces = {{"<pad>", 0.0},         {"</s>", 0.0}, {"<unk>", 0.0},
                    {"\xe2\x96\x81", -1.0}, {"a", -2.0},   {"<x>", 0.0}};
    parts.added = {{.text = "<x>", .id = 5, .single_word = true, .lstrip = true, .rstrip = true}};
    return kinema::text::Tokenizer(std::move(parts));
  }();
  return made;
}

/// Texts with weights are not longer than the prompt; steps of a prompt end with the last one.
void read_syntax(std::string_view prompt) {
  namespace text = kinema::text;
  constexpr int64_t kSteps = 7;
  int64_t last = 0;
  for (const text::TextUntil& each : text::prompt_schedule(prompt, kSteps)) {
    if (each.last_step <= last || each.text.size() > prompt.size()) {
      std::abort();
    }
    last = each.last_step;
  }
  if (last != kSteps) {
    std::abort();
  }
  size_t bytes = 0;
  try {
    for (const auto& section : text::parse_a1111(prompt)) {
      for (const text::WeightedText& part : section) {
        bytes += part.text.size();
      }
    }
  } catch (const kinema::Error&) {
  }
  if (bytes > prompt.size()) {
    std::abort();
  }
  try {
    text::lora_tags(prompt);
  } catch (const kinema::Error&) {
  }
  try {
    for (const text::CompelPrompt::Clause& clause : text::parse_compel(prompt).clauses) {
      if (clause.texts.size() != clause.shares.size()) {
        std::abort();
      }
    }
  } catch (const kinema::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace text = kinema::text;
  const std::string_view prompt(reinterpret_cast<const char*>(data), size);
  for (const std::string& each : text::prompt_syntax(prompt)) {
    if (each.empty() || each.size() > 100) {
      std::abort();
    }
  }
  read_syntax(prompt);
  const bool is_utf8 = text::invalid_utf8_at(prompt) == std::string_view::npos;
  try {
    const std::string clean = text::clean_prompt(prompt);
    const bool spaced = clean.starts_with(' ') || clean.ends_with(' ') ||
                        clean.find("  ") != std::string::npos ||
                        clean.find('\n') != std::string::npos;
    if (!is_utf8 || spaced || text::invalid_utf8_at(clean) != std::string_view::npos) {
      std::abort();
    }
    tokenizer().encode(prompt, 16);
    if (tokenizer().encode(clean, 16).ids.size() > 16) {
      std::abort();
    }
  } catch (const kinema::Error&) {
    if (is_utf8) {
      std::abort();
    }
  }
  return 0;
}
