#include "kinema/text/clip_tokenizer.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/text/encode_prompt.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

constexpr std::string_view kWordEnd = "</w>";
constexpr char32_t kCapitalIWithDot = 0x130;
constexpr char32_t kDotAbove = 0x307;

/// NFC, one space for each run of white space, lower case.
std::string normalized(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_space = false;
  for (const char32_t c : compose(decode_utf8(text))) {
    if (is_white_space(c)) {
      if (!in_space) {
        out += ' ';
      }
      in_space = true;
      continue;
    }
    in_space = false;
    if (c == kCapitalIWithDot) {
      // The only letter whose lower case has two code points without regard to its neighbours.
      append_utf8(out, U'i');
      append_utf8(out, kDotAbove);
    } else {
      append_utf8(out, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
    }
  }
  return out;
}

enum class Kind : uint8_t { SPACE, LETTER, NUMBER, OTHER };

Kind kind_of(char32_t c) {
  if (is_white_space(c)) {
    return Kind::SPACE;
  }
  const uint32_t category = U_GET_GC_MASK(static_cast<UChar32>(c));
  if ((category & U_GC_L_MASK) != 0) {
    return Kind::LETTER;
  }
  return (category & U_GC_N_MASK) != 0 ? Kind::NUMBER : Kind::OTHER;
}

/// Bytes of the word in a special token, `<|WORD|>`, at the start of a text; 0: none.
size_t special_word(std::string_view text) {
  for (const std::string_view token : {"<|startoftext|>", "<|endoftext|>"}) {
    if (text.starts_with(token)) {
      return token.size() - 4;
    }
  }
  return 0;
}

/// Bytes of the contraction at the start of a text; 0: none.
size_t contraction(std::string_view text) {
  // In this order: the first match is used.
  for (const std::string_view each : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(each)) {
      return each.size();
    }
  }
  return 0;
}

/// Bytes of the run of letters, the digit, the white space, or the run of other characters.
size_t run_of_kind(std::string_view text) {
  size_t end = 0;
  const Kind kind = kind_of(next_code_point(text, end));
  for (size_t next = end; kind != Kind::NUMBER && next < text.size(); end = next) {
    if (kind_of(next_code_point(text, next)) != kind) {
      break;
    }
  }
  return end;
}

/// Calls `piece` with what the expression
/// `<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+`
/// finds, one after the other. Each is divided again by GPT-2's expression, which splits special
/// tokens in capitals.
void split_into_pieces(std::string_view text, const auto& piece) {
  while (!text.empty()) {
    if (const size_t word = special_word(text); word > 0) {
      piece(text.substr(0, 2));
      piece(text.substr(2, word));
      piece(text.substr(2 + word, 2));
      text.remove_prefix(word + 4);
      continue;
    }
    const size_t fixed = contraction(text);
    const size_t taken = fixed > 0 ? fixed : run_of_kind(text);
    if (size_t first = 0; kind_of(next_code_point(text, first)) != Kind::SPACE) {
      piece(text.substr(0, taken));
    }
    text.remove_prefix(taken);
  }
}

}  // namespace

ClipTokenizer::ClipTokenizer(ClipTokenizerParts parts)
    : bpe_(std::move(parts.vocabulary), parts.merges, kWordEnd, parts.unknown),
      raw_(parts.added, false),
      normalized_(parts.added, true),
      start_(parts.start),
      end_(parts.end),
      pad_(parts.pad),
      max_length_(parts.max_length) {
  const auto inside = [&](int64_t id, std::string_view what) {
    check(id >= 0 && id < size(), "[text] the id of `{}` is {}, outside the vocabulary of {}", what,
          id, size());
  };
  inside(start_, "start of sequence");
  inside(end_, "end of sequence");
  inside(pad_, "padding");
  for (const AddedToken& token : parts.added) {
    inside(token.id, token.text);
  }
  normalized_.normalize(normalized);
}

void ClipTokenizer::encode_section(std::string_view text, std::vector<int64_t>& ids) const {
  normalized_.split(
      normalized(text),
      [&](std::string_view section) {
        split_into_pieces(section, [&](std::string_view piece) { bpe_.encode(piece, ids); });
      },
      [&](int64_t id) { ids.push_back(id); });
}

Tokens ClipTokenizer::encode(std::string_view text, int64_t max_length) const {
  check(max_length >= 2,
        "[text] max_length is {} but must hold the start and the end of the sequence", max_length);
  check(text.size() <= static_cast<size_t>(std::numeric_limits<int32_t>::max()),
        "[text] the prompt has {} bytes, more than 2^31", text.size());
  return encode_prompt(
      text, raw_, {start_}, end_, max_length,
      [this](std::string_view part, std::vector<int64_t>& ids) { encode_section(part, ids); });
}

}  // namespace kinema::text
