#include "kinema/text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/text/encode_prompt.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

constexpr std::string_view kWordMark = "\xe2\x96\x81";  // U+2581

/// Calls `word` with every run of characters other than white space.
void split_at_white_space(std::string_view text, const auto& word) {
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    if (is_white_space(next_code_point(text, at))) {
      if (here > start) {
        word(text.substr(start, here - start));
      }
      start = at;
    }
  }
  if (start < text.size()) {
    word(text.substr(start));
  }
}

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts)
    : unigram_(std::move(parts.pieces), parts.unknown),
      normalization_(std::move(parts.normalization)),
      raw_(parts.added, false),
      normalized_(parts.added, true),
      end_(parts.end),
      pad_(parts.pad) {
  const auto inside = [&](int64_t id, std::string_view what) {
    check(id >= 0 && id < size(), "[text] the id of `{}` is {}, outside the vocabulary of {}", what,
          id, size());
  };
  inside(end_, "end of sequence");
  inside(pad_, "padding");
  for (const AddedToken& token : parts.added) {
    inside(token.id, token.text);
  }
  normalized_.normalize([this](std::string_view text) { return normalization_.normalize(text); });
}

void Tokenizer::encode_section(std::string_view text, std::vector<int64_t>& ids) const {
  const auto word = [&](std::string_view characters) {
    const std::string marked = characters.starts_with(kWordMark)
                                   ? std::string(characters)
                                   : std::string(kWordMark) + std::string(characters);
    const std::string_view view = marked;
    for (size_t start = 0; start < view.size();) {
      const size_t end = std::min(view.find(kWordMark, start + kWordMark.size()), view.size());
      unigram_.encode(view.substr(start, end - start), ids);
      start = end;
    }
  };
  normalized_.split(
      normalization_.normalize(text),
      [&](std::string_view section) { split_at_white_space(section, word); },
      [&](int64_t id) { ids.push_back(id); });
}

Tokens Tokenizer::encode(std::string_view text, int64_t max_length) const {
  check(max_length >= 1, "[text] max_length is {} but must hold the end of the sequence",
        max_length);
  return encode_prompt(
      text, raw_, {}, end_, max_length,
      [this](std::string_view part, std::vector<int64_t>& ids) { encode_section(part, ids); });
}

}  // namespace kinema::text
