// Any bytes as spiece.model: an Error, or a tokenizer that gives ids inside its vocabulary.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "kinema/core/error.h"
#include "kinema/text/sentencepiece.h"
#include "kinema/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace text = kinema::text;
  try {
    text::SentencePieceModel model =
        text::parse_sentencepiece(std::as_bytes(std::span(data, size)), "input");
    text::TokenizerParts parts;
    parts.pieces = std::move(model.pieces);
    parts.normalization = std::move(model.normalization);
    const text::Tokenizer tokenizer(std::move(parts));
    for (const char* prompt : {"a red ball", "caf\xc3\xa9 \xef\xac\x81sh\xcc\x81 <0x41>\r\n"}) {
      for (const int64_t id : tokenizer.encode(prompt, 512).ids) {
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
