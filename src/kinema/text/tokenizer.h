#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/text/added_tokens.h"
#include "kinema/text/char_map.h"
#include "kinema/text/tokens.h"
#include "kinema/text/unigram.h"

namespace kinema::text {

/// The parts of a tokenizer.
struct TokenizerParts {
  std::vector<Piece> pieces;
  CharMap normalization;
  std::vector<AddedToken> added;
  int64_t unknown = 2;
  int64_t end = 1;
  int64_t pad = 0;
};

/// Text to token ids as T5's and UMT5's tokenizer (Hugging Face `T5TokenizerFast`): added tokens
/// are extracted; the text between them is normalised and split at white space, each word is
/// prefixed with U+2581, split before every U+2581, and divided into pieces by the unigram model.
class Tokenizer {
 public:
  /// Throws an Error if an id is outside the vocabulary.
  explicit Tokenizer(TokenizerParts parts);

  /// Reads a tokenizer folder: pieces from `spiece.model` (or else `tokenizer.json`), added tokens
  /// from `tokenizer.json` or `tokenizer_config.json`. Throws an Error with the file and the
  /// problem.
  static Tokenizer open(const std::filesystem::path& folder);

  /// From a sentencepiece model, with T5's special tokens `</s>`, `<unk>` and `<pad>`; `source` is
  /// its name in messages. Throws an Error if it is not a valid model.
  static Tokenizer parse(std::span<const std::byte> model, const std::string& source);

  /// At most `max_length` ids, including the end of the sequence; tokens that do not fit are
  /// dropped from the end of the text. Throws an Error for text that is not UTF-8.
  Tokens encode(std::string_view text, int64_t max_length) const;

  /// Ids are from 0 to size() - 1.
  int64_t size() const { return unigram_.size(); }
  int64_t pad() const { return pad_; }
  int64_t end() const { return end_; }
  /// The text of a token.
  const std::string& token(int64_t id) const { return unigram_.piece(id).text; }

 private:
  void encode_section(std::string_view text, std::vector<int64_t>& ids) const;

  Unigram unigram_;
  CharMap normalization_;
  AddedTokens raw_;         // found in the original text
  AddedTokens normalized_;  // found in the normalised text
  int64_t end_;
  int64_t pad_;
};

}  // namespace kinema::text
