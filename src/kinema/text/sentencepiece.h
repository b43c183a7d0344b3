#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kinema/text/char_map.h"
#include "kinema/text/unigram.h"

namespace kinema::text {

/// What a sentencepiece model file holds.
struct SentencePieceModel {
  std::vector<Piece> pieces;
  CharMap normalization;
};

/// Reads the bytes of a `spiece.model`; `source` names it in messages. Throws an Error when it is
/// not one, not a unigram model, or holds what cannot be (no pieces, scores that are not finite,
/// pieces that are not UTF-8).
SentencePieceModel parse_sentencepiece(std::span<const std::byte> bytes, const std::string& source);

}  // namespace kinema::text
