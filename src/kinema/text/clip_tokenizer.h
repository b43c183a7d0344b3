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

/// The parts of a CLIP tokenizer.
struct ClipTokenizerParts {
  std::vector<std::string> vocabulary;  // by id
  std::vector<Merge> merges;
  /// Start, end, pad and unknown are included.
  std::vector<AddedToken> added;
  int64_t start = 0;
  int64_t end = 0;
  int64_t pad = 0;
  int64_t unknown = 0;
  std::optional<int64_t> max_length = {};
};

/// Text to token ids as CLIP's tokenizer (Hugging Face `CLIPTokenizer` of transformers 5): added
/// tokens are extracted; the text between them is composed (NFC), runs of white space become one
/// space, and letters lower case; it is split into contractions, runs of letters, single digits and
/// runs of other characters, each of which is encoded by byte pairs.
class ClipTokenizer {
 public:
  /// True for a folder with a byte pair tokenizer: with `merges.txt`, or a `tokenizer.json` of that
  /// kind. False if the files do not tell.
  static bool is_in(const std::filesystem::path& folder);

  /// Throws an Error if an id is outside the vocabulary, and the Errors of Bpe.
  explicit ClipTokenizer(ClipTokenizerParts parts);

  /// Reads a tokenizer folder: `vocab.json` and `merges.txt`, or else `tokenizer.json`, which
  /// contains both; and special tokens from `special_tokens_map.json`, which has priority, and
  /// `tokenizer_config.json`; both may be missing. Throws an Error with the file and the problem.
  static ClipTokenizer open(const std::filesystem::path& folder);

  /// At most `max_length` ids, including start and end; tokens that do not fit are dropped from the
  /// end of the text. Throws an Error for text that is not UTF-8, and for a max_length below 2.
  Tokens encode(std::string_view text, int64_t max_length) const;

  /// Ids are from 0 to size() - 1.
  int64_t size() const { return bpe_.size(); }
  int64_t start() const { return start_; }
  int64_t end() const { return end_; }
  /// The id that pads prompts.
  int64_t pad() const { return pad_; }
  /// `model_max_length` of the folder, if present.
  std::optional<int64_t> max_length() const { return max_length_; }
  /// The text of a token.
  const std::string& token(int64_t id) const { return bpe_.token(id); }

 private:
  void encode_section(std::string_view text, std::vector<int64_t>& ids) const;

  Bpe bpe_;
  AddedTokens raw_;         // found in the original text
  AddedTokens normalized_;  // found in the normalised text
  int64_t start_;
  int64_t end_;
  int64_t pad_;
  std::optional<int64_t> max_length_;
};

}  // namespace kinema::text
