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

/// Two tokens that become one.
using Merge = std::pair<std::string, std::string>;

/// Byte pair encoding over bytes (arXiv:1508.07909; bytes as printable characters, as GPT-2 has
/// them): a word begins as one token a byte, the last with `word_end` behind it, and of all
/// neighbours those that stand first in the list of merges become one, until none is left.
class Bpe {
 public:
  /// What a tokenizer's files hold: `vocabulary[id]` is a token's text, empty where nobody has the
  /// id. Throws an Error when there is no token, `unknown` is not one of them, two tokens have one
  /// text, or a merge is of tokens or gives a token that the vocabulary does not have.
  Bpe(std::vector<std::string> vocabulary, const std::vector<Merge>& merges,
      std::string_view word_end, int64_t unknown);
  Bpe(Bpe&&) = default;  // ids_ looks into vocabulary_, so a copy would need its own

  /// Appends the ids of a word, any bytes. A byte that no token stands for becomes `unknown`. Takes
  /// time in proportion to n log n.
  void encode(std::string_view word, std::vector<int64_t>& ids) const;

  /// Ids are from 0 to size() - 1.
  int64_t size() const { return static_cast<int64_t>(vocabulary_.size()); }
  const std::string& token(int64_t id) const { return vocabulary_[static_cast<size_t>(id)]; }
  /// The id of this very text, or -1.
  int64_t find(std::string_view text) const;

 private:
  struct Merged {
    int64_t rank = 0;
    int64_t id = 0;
  };
  /// Null: they do not merge.
  const Merged* merged(int64_t left, int64_t right) const;

  std::vector<std::string> vocabulary_;
  std::unordered_map<std::string_view, int64_t> ids_;  // of texts in vocabulary_
  std::unordered_map<uint64_t, Merged> merges_;        // by both ids, each in 32 bits
  std::array<int64_t, 256> inner_{};                   // the token of a byte within a word
  std::array<int64_t, 256> last_{};                    // and of a word's last byte
};

/// The text of `vocab.json`, an object of ids by token, as a list by id. Throws an Error naming
/// `source` and the token for an id that is none, is out of range, or belongs to two.
std::vector<std::string> parse_vocabulary(std::string_view json, const std::string& source);

/// The text of `merges.txt`: two tokens a line, the first to be merged first; a first line that
/// begins with `#version` is none. Throws an Error naming `source` and the line.
std::vector<Merge> parse_merges(std::string_view text, const std::string& source);

/// The same of a tokenizer.json's `merges`, a list of `"a b"` or of `["a", "b"]`. Throws an Error
/// naming the entry.
std::vector<Merge> parse_merges(const io::Json& list);

}  // namespace kinema::text
