// Any bytes as a prompt: an Error when they are not UTF-8, else clean text that is, without white
// space at its ends or twice in a row, and that a tokenizer takes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/text/clean.h"
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace text = kinema::text;
  const std::string_view prompt(reinterpret_cast<const char*>(data), size);
  for (const std::string& each : text::prompt_syntax(prompt)) {
    if (each.empty() || each.size() > 100) {
      std::abort();
    }
  }
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
