#include "kinema/text/unigram.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

// Pieces of real tokenizers have a few dozen bytes; the bound keeps the time linear.
constexpr size_t kLongestPiece = 512;

// The score of an unknown character is this much below the lowest piece's: sentencepiece's own
// constant.
constexpr double kUnknownPenalty = 10.0;

// FNV-1a, which is extended byte by byte like the candidates.
constexpr uint64_t kHashStart = 0xcbf29ce484222325U;
uint64_t hash_on(uint64_t hash, char c) {
  return (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
}
uint64_t hash_of(std::string_view text) {
  uint64_t hash = kHashStart;
  for (const char c : text) {
    hash = hash_on(hash, c);
  }
  return hash;
}

/// Mixes the low bits, which FNV mixes weakly.
size_t slot_of(uint64_t hash, size_t mask) { return (hash ^ (hash >> 29)) & mask; }

/// The best segmentation up to a position in the word.
struct Step {
  double score = 0.0;
  size_t start = std::string_view::npos;  // npos: not reached
  int64_t piece = 0;
};

}  // namespace

Unigram::Unigram(std::vector<Piece> pieces, int64_t unknown)
    : pieces_(std::move(pieces)), unknown_(unknown), lengths_(256) {
  check(unknown >= 0 && unknown < size(), "[text] the unknown piece is {} of {}", unknown, size());
  double worst = std::numeric_limits<double>::infinity();
  slots_.resize(std::bit_ceil(2 * pieces_.size()));
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const std::string& text = pieces_[i].text;
    worst = std::min(worst, pieces_[i].score);
    if (text.empty()) {
      continue;
    }
    check(text.size() <= kLongestPiece, "[text] piece {} has {} bytes, more than {}", i,
          text.size(), kLongestPiece);
    size_t slot = slot_of(hash_of(text), mask);
    while (slots_[slot] != 0 && pieces_[slots_[slot] - 1].text != text) {
      slot = (slot + 1) & mask;
    }
    slots_[slot] = static_cast<uint32_t>(i) + 1;
    std::vector<uint16_t>& lengths = lengths_[static_cast<unsigned char>(text[0])];
    const auto at = std::ranges::lower_bound(lengths, text.size());
    if (at == lengths.end() || *at != text.size()) {
      lengths.insert(at, static_cast<uint16_t>(text.size()));
    }
  }
  unknown_score_ = worst - kUnknownPenalty;
}

int64_t Unigram::find(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t slot = slot_of(hash, mask); slots_[slot] != 0; slot = (slot + 1) & mask) {
    if (pieces_[slots_[slot] - 1].text == text) {
      return slots_[slot] - 1;
    }
  }
  return -1;
}

int64_t Unigram::find(std::string_view text) const { return find(text, hash_of(text)); }

void Unigram::encode(std::string_view word, std::vector<int64_t>& ids) const {
  std::vector<Step> best(word.size() + 1);
  const auto offer = [&](size_t start, size_t end, int64_t piece, double score) {
    const double sum = score + best[start].score;
    if (best[end].start == std::string_view::npos || sum > best[end].score) {
      best[end] = {.score = sum, .start = start, .piece = piece};
    }
  };
  for (size_t start = 0; start < word.size();) {
    size_t next = start;
    next_code_point(word, next);
    bool has_character = false;
    uint64_t hash = kHashStart;
    size_t end = start;
    for (const uint16_t length : lengths_[static_cast<unsigned char>(word[start])]) {
      if (length > word.size() - start) {
        break;
      }
      for (; end < start + length; ++end) {
        hash = hash_on(hash, word[end]);
      }
      const int64_t piece = find(word.substr(start, length), hash);
      if (piece >= 0) {
        offer(start, end, piece, pieces_[static_cast<size_t>(piece)].score);
        has_character = has_character || end == next;
      }
    }
    if (!has_character) {
      offer(start, next, unknown_, unknown_score_);
    }
    start = next;
  }
  // From the end to the start; adjacent unknown pieces become one.
  const size_t first = ids.size();
  for (size_t end = word.size(); end > 0;) {
    size_t start = best[end].start;
    int64_t piece = best[end].piece;
    if (piece == unknown_) {
      while (start > 0 && best[start].piece == unknown_) {
        start = best[start].start;
      }
      const int64_t same = find(word.substr(start, end - start));
      piece = same >= 0 ? same : unknown_;
    }
    ids.push_back(piece);
    end = start;
  }
  std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
}

}  // namespace kinema::text
