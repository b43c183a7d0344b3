#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::text {

/// One entry of a vocabulary: its text and its log probability.
struct Piece {
  std::string text;
  double score = 0.0;
};

/// The unigram language model of arXiv:1804.10959: divides a word into the pieces with the largest
/// sum of scores.
class Unigram {
 public:
  /// A piece's id is its index. Throws an Error if `unknown` is not an index of the vocabulary, or
  /// if a piece is longer than 512 bytes.
  Unigram(std::vector<Piece> pieces, int64_t unknown);

  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }
  const Piece& piece(int64_t id) const { return pieces_[static_cast<size_t>(id)]; }
  /// The id of this text, or -1; of two equal pieces, the later.
  int64_t find(std::string_view text) const;

  /// Appends the ids of a word (well-formed UTF-8). A run of characters without a piece becomes one
  /// `unknown`. Takes time in proportion to the word's length times the number of piece lengths.
  void encode(std::string_view word, std::vector<int64_t>& ids) const;

 private:
  int64_t find(std::string_view text, uint64_t hash) const;

  std::vector<Piece> pieces_;
  int64_t unknown_;
  double unknown_score_ = 0.0;
  // Open addressing over the hash of a piece's text: index + 1, or 0 if empty.
  std::vector<uint32_t> slots_;
  // Lengths of the pieces that start with a byte, ascending.
  std::vector<std::vector<uint16_t>> lengths_;
};

}  // namespace kinema::text
