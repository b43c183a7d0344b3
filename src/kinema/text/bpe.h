#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kinema/io/json.h"

namespace kinema::text {

/// Two tokens that merge.
using Merge = std::pair<std::string, std::string>;

/// Byte pair encoding over bytes (arXiv:1508.07909; bytes as printable characters, as in GPT-2): a
/// word starts as one token per byte, with `word_end` after the last; the neighbours that are first
/// in the list of merges are merged, until none is left.
class Bpe {
 public:
  /// The contents of a tokenizer's files: `vocabulary[id]` is a token's text, empty for unused ids.
  /// Throws an Error if there is no token, if `unknown` is not a token, if two tokens have the same
  /// text, or if a merge has tokens that are not in the vocabulary.
  Bpe(std::vector<std::string> vocabulary, const std::vector<Merge>& merges,
      std::string_view word_end, int64_t unknown);
  Bpe(Bpe&&) = default;  // ids_ refers to vocabulary_, so a copy would need its own

  /// Appends the ids of a word, any bytes. A byte without a token becomes `unknown`. Takes time in
  /// proportion to n log n.
  void encode(std::string_view word, std::vector<int64_t>& ids) const;

  /// Ids are from 0 to size() - 1.
  int64_t size() const { return static_cast<int64_t>(vocabulary_.size()); }
  const std::string& token(int64_t id) const { return vocabulary_[static_cast<size_t>(id)]; }
  /// The id of this text, or -1.
  int64_t find(std::string_view text) const;

 private:
  struct Merged {
    int64_t rank = 0;
    int64_t id = 0;
  };
  /// Null if they do not merge.
  const Merged* merged(int64_t left, int64_t right) const;

  std::vector<std::string> vocabulary_;
  std::unordered_map<std::string_view, int64_t> ids_;  // of texts in vocabulary_
  std::unordered_map<uint64_t, Merged> merges_;        // by both ids, each in 32 bits
  std::array<int64_t, 256> inner_{};                   // the token of a byte inside a word
  std::array<int64_t, 256> last_{};                    // and of a word's last byte
};

/// The text of `vocab.json`, an object of ids by token, as a list by id. Throws an Error with
/// `source` and the token for an id that is not an integer, is out of range, or is used twice.
std::vector<std::string> parse_vocabulary(std::string_view json, const std::string& source);

/// The text of `merges.txt`: two tokens per line, in the order of merging; a first line that starts
/// with `#version` is skipped. Throws an Error with `source` and the line.
std::vector<Merge> parse_merges(std::string_view text, const std::string& source);

/// The same for a tokenizer.json's `merges`, a list of `"a b"` or of `["a", "b"]`. Throws an Error
/// with the entry.
std::vector<Merge> parse_merges(const io::Json& list);

}  // namespace kinema::text
