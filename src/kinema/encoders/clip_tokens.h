#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kinema/encoders/clip_text.h"
#include "kinema/encoders/learned_words.h"
#include "kinema/text/weighted_text.h"

namespace kinema::encoders {

/// A token of a weighted prompt.
struct ClipToken {
  int64_t id = 0;
  double weight = 1.0;
  size_t part = 0;                  // the part of the prompt
  std::span<const float> row = {};  // of a learned word; empty: the table's
};

/// The sequences of a prompt. Tokens are without start, end and padding.
using ClipSequences = std::vector<std::vector<ClipToken>>;

/// The tokens of weighted parts, each tokenized by itself. Learned words become one token per row.
/// As in diffusers, whose tokenizer has them as tokens, a word is found in the text, in letters of
/// any case, and what is around it is tokenized by itself: `<cat>, ball` has the word `<cat>`. A
/// name that begins or ends with a letter or digit is not found inside a longer word.
std::vector<ClipToken> clip_tokens(const text::ClipTokenizer& tokenizer,
                                   std::span<const text::WeightedText> parts,
                                   std::span<const LearnedWord> words);

/// The sections of a prompt (text::parse_a1111) in sequences of at most `most` tokens, as A1111's
/// web UI with its default of 20 tokens after a comma. A learned word is not divided; as there, it
/// is found by its tokens, which punctuation that touches it may change.
ClipSequences a1111_sequences(const text::ClipTokenizer& tokenizer,
                              std::span<const std::vector<text::WeightedText>> sections,
                              std::span<const LearnedWord> words, size_t most);

/// The tokens of a text in sequences of at most `most` tokens, as compel by default.
ClipSequences compel_sequences(const text::ClipTokenizer& tokenizer, std::vector<ClipToken> tokens,
                               size_t most);

/// The input of the model: start, tokens, end and padding.
ClipSequence clip_sequence(const text::ClipTokenizer& tokenizer, std::span<const ClipToken> tokens,
                           int64_t length);

}  // namespace kinema::encoders
