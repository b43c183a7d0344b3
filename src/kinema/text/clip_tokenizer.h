#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/text/added_tokens.h"
#include "kinema/text/bpe.h"
#include "kinema/text/tokens.h"

namespace kinema::text {

/// What a CLIP tokenizer is made of.
struct ClipTokenizerParts {
  std::vector<std::string> vocabulary;  // by id
  std::vector<Merge> merges;
  /// Start, end, pad and unknown are among them.
  std::vector<AddedToken> added;
  int64_t start = 0;
  int64_t end = 0;
  int64_t pad = 0;
  int64_t unknown = 0;
  std::optional<int64_t> max_length = {};
};

/// Text to token ids as CLIP's tokenizer makes them (Hugging Face `CLIPTokenizer` of transformers
/// 5): added tokens are cut out; what is between is composed (NFC), its runs of white space become
/// one space and its letters small; it is split into contractions, runs of letters, single digits
/// and runs of what is neither, and each piece goes through the byte pair encoding.
class ClipTokenizer {
 public:
  /// True for a folder of byte pairs: with `merges.txt`, or a `tokenizer.json` of that kind. False
  /// where the files do not say.
  static bool is_in(const std::filesystem::path& folder);

  /// Throws an Error when an id is outside the vocabulary, and what Bpe throws.
  explicit ClipTokenizer(ClipTokenizerParts parts);

  /// Reads a tokenizer folder: `vocab.json` and `merges.txt`, or where these are not
  /// `tokenizer.json`, which holds both; and special tokens from `special_tokens_map.json`, which
  /// counts first, and `tokenizer_config.json`; both may be missing. Throws an Error naming the
  /// file and what is wrong with it.
  static ClipTokenizer open(const std::filesystem::path& folder);

  /// At most `max_length` ids, the start and the end among them: what does not fit is dropped from
  /// the end of the text. Throws an Error for text that is not UTF-8, and a max_length below 2.
  Tokens encode(std::string_view text, int64_t max_length) const;

  /// Ids are from 0 to size() - 1.
  int64_t size() const { return bpe_.size(); }
  int64_t start() const { return start_; }
  int64_t end() const { return end_; }
  /// What prompts are filled up with.
  int64_t pad() const { return pad_; }
  /// `model_max_length` of the folder, where it says one.
  std::optional<int64_t> max_length() const { return max_length_; }
  /// The text of a token.
  const std::string& token(int64_t id) const { return bpe_.token(id); }

 private:
  void encode_section(std::string_view text, std::vector<int64_t>& ids) const;

  Bpe bpe_;
  AddedTokens raw_;         // looked for in the text as it is
  AddedTokens normalized_;  // and in the normalised text
  int64_t start_;
  int64_t end_;
  int64_t pad_;
  std::optional<int64_t> max_length_;
};

}  // namespace kinema::text
