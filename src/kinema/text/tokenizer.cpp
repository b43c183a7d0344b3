#include "kinema/text/tokenizer.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

constexpr std::string_view kWordMark = "\xe2\x96\x81";  // U+2581

/// The code point that ends at `end`.
char32_t code_point_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U) {
    --at;
  }
  return next_code_point(text, at);
}

size_t length_of(char32_t c) { return c < 0x80 ? 1 : (c < 0x800 ? 2 : (c < 0x10000 ? 3 : 4)); }

/// `\w` of Unicode regular expressions.
bool is_word(char32_t c) {
  const auto u = static_cast<UChar32>(c);
  return u_isUAlphabetic(u) != 0 || u_isdigit(u) != 0 || u_charType(u) == U_CONNECTOR_PUNCTUATION ||
         (U_MASK(u_charType(u)) & U_GC_M_MASK) != 0 || u_hasBinaryProperty(u, UCHAR_JOIN_CONTROL);
}

bool stands_alone(std::string_view text, size_t start, size_t end) {
  size_t next = end;
  return (start == 0 || !is_word(code_point_before(text, start))) &&
         (end == text.size() || !is_word(next_code_point(text, next)));
}

/// Calls `section` with the text between added tokens and `token` with the id of each, in order.
void split_at_tokens(std::string_view text, const std::vector<AddedToken>& tokens,
                     const auto& section, const auto& token) {
  std::array<bool, 256> leads{};
  for (const AddedToken& each : tokens) {
    leads[static_cast<unsigned char>(each.text[0])] = true;
  }
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* found = nullptr;
    if (leads[static_cast<unsigned char>(text[at])]) {
      const auto here = std::ranges::find_if(tokens, [&](const AddedToken& each) {
        return text.compare(at, each.text.size(), each.text) == 0;
      });
      found = here == tokens.end() ? nullptr : &*here;
    }
    if (found == nullptr) {
      ++at;
      continue;
    }
    size_t start = at;
    size_t end = at + found->text.size();
    at = end;
    if (found->single_word && !stands_alone(text, start, end)) {
      continue;
    }
    while (found->lstrip && start > done && is_white_space(code_point_before(text, start))) {
      start -= length_of(code_point_before(text, start));
    }
    for (size_t next = end; found->rstrip && end < text.size(); end = next) {
      if (!is_white_space(next_code_point(text, next))) {
        break;
      }
    }
    if (done < start) {
      section(text.substr(done, start - done));
    }
    token(found->id);
    done = end;
    at = std::max(at, end);
  }
  if (done < text.size()) {
    section(text.substr(done));
  }
}

/// Calls `word` with every run of characters that are not white space.
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

/// The longest first, so that the first that fits is the one to take.
std::vector<AddedToken> of_kind(const std::vector<AddedToken>& all, bool normalized) {
  std::vector<AddedToken> out;
  std::ranges::copy_if(all, std::back_inserter(out), [&](const AddedToken& each) {
    return each.normalized == normalized && !each.text.empty();
  });
  std::ranges::stable_sort(out, std::greater(),
                           [](const AddedToken& each) { return each.text.size(); });
  return out;
}

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts)
    : unigram_(std::move(parts.pieces), parts.unknown),
      normalization_(std::move(parts.normalization)),
      raw_(of_kind(parts.added, false)),
      normalized_(of_kind(parts.added, true)),
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
  for (AddedToken& token : normalized_) {
    token.text = normalization_.normalize(token.text);
  }
  std::erase_if(normalized_, [](const AddedToken& token) { return token.text.empty(); });
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
  split_at_tokens(
      normalization_.normalize(text), normalized_,
      [&](std::string_view section) { split_at_white_space(section, word); },
      [&](int64_t id) { ids.push_back(id); });
}

Tokens Tokenizer::encode(std::string_view text, int64_t max_length) const {
  check(max_length >= 1, "[text] max_length is {} but must hold the end of the sequence",
        max_length);
  const size_t wrong = invalid_utf8_at(text);
  check(wrong == std::string_view::npos, "[text] the prompt is not UTF-8: byte {} is 0x{:02x}",
        wrong, wrong < text.size() ? static_cast<unsigned char>(text[wrong]) : 0);
  Tokens out;
  split_at_tokens(
      text, raw_, [&](std::string_view section) { encode_section(section, out.ids); },
      [&](int64_t id) { out.ids.push_back(id); });
  const auto kept = std::min(static_cast<int64_t>(out.ids.size()), max_length - 1);
  out.dropped = static_cast<int64_t>(out.ids.size()) - kept;
  out.ids.resize(static_cast<size_t>(kept));
  out.ids.push_back(end_);
  return out;
}

}  // namespace kinema::text
