#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kinema/text/char_map.h"
#include "kinema/text/unigram.h"

namespace kinema::text {

/// The contents of a sentencepiece model file.
struct SentencePieceModel {
  std::vector<Piece> pieces;
  CharMap normalization;
};

/// Parses a `spiece.model`; `source` is its name in messages. Throws an Error if it is not a
/// sentencepiece file, not a unigram model, or invalid (no pieces, scores that are not finite,
/// pieces that are not UTF-8).
SentencePieceModel parse_sentencepiece(std::span<const std::byte> bytes, const std::string& source);

}  // namespace kinema::text
