#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/text/added_tokens.h"
#include "kinema/text/bpe.h"
#include "kinema/text/tokens.h"

namespace kinema::text {

/// The parts of a Qwen tokenizer.
struct QwenTokenizerParts {
  std::vector<std::string> vocabulary;  // by id, with the added tokens
  std::vector<Merge> merges;
  std::vector<AddedToken> added;
  int64_t pad = 0;
};

/// Text to token ids as the tokenizer of Qwen2 and Qwen3 (Hugging Face `Qwen2Tokenizer`): added
/// tokens are extracted; the text between them is composed (NFC) and cut by the pattern of their
/// tokenizer.json, which is at the top of qwen_tokenizer.cpp. Each part is encoded by byte pairs.
/// Nothing is put before or after a text.
class QwenTokenizer {
 public:
  /// Throws an Error if an id is outside the vocabulary or a byte has no token, and the Errors of
  /// Bpe.
  explicit QwenTokenizer(QwenTokenizerParts parts);

  /// Reads a tokenizer folder: `tokenizer.json`, or else `vocab.json` and `merges.txt` with the
  /// added tokens of `tokenizer_config.json`. Throws an Error with the file and the problem.
  static QwenTokenizer open(const std::filesystem::path& folder);

  /// At most `max_length` ids; tokens that do not fit are dropped from the end. Throws an Error for
  /// text that is not UTF-8.
  Tokens encode(std::string_view text, int64_t max_length) const;

  /// Ids are from 0 to size() - 1.
  int64_t size() const { return bpe_.size(); }
  int64_t pad() const { return pad_; }
  /// The text of a token.
  const std::string& token(int64_t id) const { return bpe_.token(id); }

 private:
  Bpe bpe_;
  AddedTokens raw_;         // found in the original text
  AddedTokens normalized_;  // found in the composed text
  int64_t pad_;
};

/// A prompt as the only message of a user in Qwen3's chat template, up to where the answer begins.
/// Without thinking, an empty thought begins it.
std::string qwen_chat(std::string_view prompt, bool thinking = true);

/// Calls `piece` with the parts of composed text that the expression above finds, in order: all of
/// the text. In linear time.
void split_qwen(std::string_view text, const std::function<void(std::string_view)>& piece);

}  // namespace kinema::text
