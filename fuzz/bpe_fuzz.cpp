// Any bytes as vocab.json, and behind a line of dashes as merges.txt or the list in tokenizer.json:
// an Error, or a tokenizer that gives ids inside its vocabulary.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/text/clip_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace text = kinema::text;
  const AllocationLimit limit(size);
  constexpr std::string_view kBetween = "\n---\n";
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t between = input.find(kBetween);
  try {
    text::ClipTokenizerParts parts;
    parts.vocabulary = text::parse_vocabulary(input.substr(0, between), "vocab.json");
    if (between != std::string_view::npos) {
      const std::string_view merges = input.substr(between + kBetween.size());
      parts.merges = merges.starts_with('[')
                         ? text::parse_merges(kinema::io::Json::parse(merges, "tokenizer.json"))
                         : text::parse_merges(merges, "merges.txt");
    }
    parts.added = {{.text = parts.vocabulary.back(), .id = 0, .normalized = true}};
    const text::ClipTokenizer tokenizer(std::move(parts));
    for (const char* prompt :
         {"a red ball's 12 bb!!", "Caf\xc3\xa9 \xf0\x9f\x98\x80<|ENDOFTEXT|>"}) {
      for (const int64_t id : tokenizer.encode(prompt, 77).ids) {
        if (id < 0 || id >= tokenizer.size()) {
          std::abort();
        }
      }
    }
  } catch (const kinema::Error&) {
    return 0;
  }
  return 0;
}
