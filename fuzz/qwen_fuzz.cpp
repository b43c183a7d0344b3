// Any bytes as a prompt in Qwen's chat: an Error when they are not UTF-8, else parts that make up
// the text, and ids of which the tokens' bytes are the composed text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/text/qwen_tokenizer.h"
#include "kinema/text/unicode.h"

namespace {

using namespace kinema::text;

/// Every byte, two pairs and the chat's added tokens.
const QwenTokenizer& tokenizer() {
  static const QwenTokenizer made = [] {
    QwenTokenizerParts parts;
    // GPT-2's characters of the bytes: themselves where they are printable, else from 256 up.
    char32_t next = 256;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool is_printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
      parts.vocabulary.push_back(encode_utf8(std::u32string(1, is_printable ? byte : next++)));
    }
    parts.vocabulary.insert(parts.vocabulary.end(), {"th", "he"});
    parts.merges = {{"t", "h"}, {"h", "e"}};
    for (const char* added : {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>"}) {
      parts.added.push_back({.text = added, .id = std::ssize(parts.vocabulary)});
      parts.vocabulary.emplace_back(added);
    }
    parts.pad = parts.added.front().id;
    return QwenTokenizer(std::move(parts));
  }();
  return made;
}

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

/// The text of ids; those of bytes have the byte's number.
std::string text_of(const Tokens& tokens) {
  std::string out;
  for (const int64_t id : tokens.ids) {
    require(id >= 0 && id < tokenizer().size());
    out += id < 256 ? std::string(1, static_cast<char>(id)) : tokenizer().token(id);
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view prompt(reinterpret_cast<const char*>(data), size);
  try {
    const std::string chat = qwen_chat(prompt, size % 2 == 0);
    const Tokens all = tokenizer().encode(chat, std::numeric_limits<int32_t>::max());
    require(all.dropped == 0 && chat.find(prompt) != std::string::npos);
    // Composing does not reach across an added token.
    const std::string text = text_of(all);
    require(compose(decode_utf8(text)) == compose(decode_utf8(chat)));
    const Tokens cut = tokenizer().encode(chat, 5);
    require(cut.ids.size() == 5 && cut.dropped == std::ssize(all.ids) - 5);
    std::string joined;
    split_qwen(chat, [&](std::string_view piece) {
      require(!piece.empty());
      joined += piece;
    });
    require(joined == chat);
  } catch (const kinema::Error&) {
    require(invalid_utf8_at(prompt) != std::string_view::npos);
  }
  return 0;
}
