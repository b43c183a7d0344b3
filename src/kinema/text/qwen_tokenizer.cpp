#include "kinema/text/qwen_tokenizer.h"

#include <fmt/format.h>
#include <unicode/uchar.h>

#include <array>
#include <limits>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

// The pattern of tokenizer.json, whose alternatives are tried in this order:
//
//   (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N} | ?[^\s\p{L}\p{N}]+[\r\n]*
//   | \s*[\r\n]+ | \s+(?!\S) | \s+

enum class Class : uint8_t { LETTER, NUMBER, LINE_END, SPACE, OTHER };

Class class_of(char32_t c) {
  if (c == U'\r' || c == U'\n') {
    return Class::LINE_END;
  }
  if (is_white_space(c)) {
    return Class::SPACE;
  }
  const uint32_t category = U_GET_GC_MASK(static_cast<UChar32>(c));
  return (category & U_GC_L_MASK) != 0   ? Class::LETTER
         : (category & U_GC_N_MASK) != 0 ? Class::NUMBER
                                         : Class::OTHER;
}

bool is_space(Class c) { return c == Class::SPACE || c == Class::LINE_END; }

/// The end of the run of characters that fit, from `at`.
size_t end_of_run(std::string_view text, size_t at, auto&& fits) {
  for (size_t next = at; next < text.size(); at = next) {
    if (!fits(class_of(next_code_point(text, next)))) {
      break;
    }
  }
  return at;
}

/// Bytes of the contraction at the start of a text, in any case; 0: none.
size_t contraction(std::string_view text) {
  if (!text.starts_with('\'')) {
    return 0;
  }
  // The letters after the apostrophe; U+017F is a small s in another shape.
  std::string letters;
  std::array<size_t, 2> ends{};
  size_t at = 1;
  for (size_t& end : ends) {
    if (at < text.size()) {
      const char32_t c = next_code_point(text, at);
      letters += c == U'\u017f'           ? 's'
                 : c >= U'A' && c <= U'Z' ? static_cast<char>(c - U'A' + U'a')
                 : c < 0x80               ? static_cast<char>(c)
                                          : '?';
      end = at;
    }
  }
  for (const std::string_view each : {"s", "t", "re", "ve", "m", "ll", "d"}) {
    if (letters.starts_with(each)) {
      return ends[each.size() - 1];
    }
  }
  return 0;
}

/// Bytes of the first part of a text, which is not empty: one alternative after the other.
size_t first_part(std::string_view text) {
  if (const size_t bytes = contraction(text); bytes > 0) {
    return bytes;
  }
  const auto is_letter = [](Class c) { return c == Class::LETTER; };
  const auto is_other = [](Class c) { return c == Class::OTHER; };
  size_t second = 0;
  const Class first = class_of(next_code_point(text, second));
  if (is_letter(first)) {
    return end_of_run(text, 0, is_letter);
  }
  if (first == Class::SPACE || first == Class::OTHER) {
    if (const size_t end = end_of_run(text, second, is_letter); end > second) {
      return end;
    }
  }
  if (first == Class::NUMBER) {
    return second;
  }
  const size_t others = end_of_run(text, text[0] == ' ' ? 1 : 0, is_other);
  if (others > 0 && (others > 1 || text[0] != ' ')) {
    return end_of_run(text, others, [](Class c) { return c == Class::LINE_END; });
  }
  // White space up to its last line end; else all of it at the end of the text, else all but its
  // last character, which goes with what follows, or that character alone.
  size_t last_line_end = 0;
  size_t last = 0;  // where the run's last character starts
  size_t end = 0;
  for (size_t next = 0; next < text.size();) {
    const Class c = class_of(next_code_point(text, next));
    if (!is_space(c)) {
      break;
    }
    last = end;
    end = next;
    last_line_end = c == Class::LINE_END ? next : last_line_end;
  }
  return last_line_end > 0 ? last_line_end : end == text.size() || last == 0 ? end : last;
}

}  // namespace

void split_qwen(std::string_view text, const std::function<void(std::string_view)>& piece) {
  while (!text.empty()) {
    const size_t bytes = first_part(text);
    piece(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
}

std::string qwen_chat(std::string_view prompt, bool thinking) {
  return fmt::format("<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n{}", prompt,
                     thinking ? "" : "<think>\n\n</think>\n\n");
}

QwenTokenizer::QwenTokenizer(QwenTokenizerParts parts)
    : bpe_(std::move(parts.vocabulary), parts.merges, "", parts.pad),
      raw_(parts.added, false),
      normalized_(parts.added, true),
      pad_(parts.pad) {
  for (const AddedToken& token : parts.added) {
    check(token.id >= 0 && token.id < size(),
          "[text] the id of `{}` is {}, outside the vocabulary of {}", token.text, token.id,
          size());
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char one = static_cast<char>(byte);
    std::vector<int64_t> ids;
    bpe_.encode({&one, 1}, ids);
    check(ids[0] != pad_, "[text] the vocabulary has no token for the byte {}", byte);
  }
}

Tokens QwenTokenizer::encode(std::string_view text, int64_t max_length) const {
  check(max_length >= 0, "[text] max_length is {}, expected 0 up", max_length);
  check(text.size() <= static_cast<size_t>(std::numeric_limits<int32_t>::max()),
        "[text] the prompt has {} bytes, more than 2^31", text.size());
  const size_t wrong = invalid_utf8_at(text);
  check(wrong == std::string_view::npos, "[text] the prompt is not UTF-8: byte {}", wrong);
  Tokens out;
  const auto add = [&](int64_t id) { out.ids.push_back(id); };
  raw_.split(
      text,
      [&](std::string_view section) {
        normalized_.split(
            encode_utf8(compose(decode_utf8(section))),
            [&](std::string_view part) {
              split_qwen(part, [&](std::string_view piece) { bpe_.encode(piece, out.ids); });
            },
            add);
      },
      add);
  if (std::ssize(out.ids) > max_length) {
    out.dropped = std::ssize(out.ids) - max_length;
    out.ids.resize(static_cast<size_t>(max_length));
  }
  return out;
}

}  // namespace kinema::text
