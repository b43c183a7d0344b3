#include "kinema/text/added_tokens.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <iterator>

#include "kinema/core/error.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

using io::Json;

// Tokens of real tokenizers have a few dozen bytes; the bound keeps the time linear.
constexpr size_t kLongest = 512;

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

void sort_by_text(std::vector<AddedToken>& tokens) {
  std::erase_if(tokens, [](const AddedToken& each) { return each.text.empty(); });
  std::ranges::stable_sort(tokens, {}, &AddedToken::text);
}

bool flag(const Json& json, std::string_view key, bool otherwise) {
  const Json* value = json.find(key);
  return value == nullptr ? otherwise : value->as_bool();
}

}  // namespace

AddedToken added_token(const Json& json, int64_t id, bool normalized) {
  return {.text = json.at("content").as_string(),
          .id = id,
          .single_word = flag(json, "single_word", false),
          .lstrip = flag(json, "lstrip", false),
          .rstrip = flag(json, "rstrip", false),
          .normalized = flag(json, "normalized", normalized)};
}

std::vector<AddedToken> decoder_tokens(const Json& decoder, bool normalized_by_kind) {
  std::vector<AddedToken> out;
  for (const auto& [id, token] : decoder.members()) {
    const bool digits = !id.empty() && id.size() < 10 &&
                        std::ranges::all_of(id, [](char c) { return c >= '0' && c <= '9'; });
    check(digits, "[text] {} is not named by a token id", token.where());
    out.push_back(
        added_token(token, std::stoll(id), normalized_by_kind && !flag(token, "special", false)));
  }
  return out;
}

std::string token_text(const Json& value, std::string_view otherwise) {
  if (value.is_null()) {
    return std::string(otherwise);
  }
  return value.is_object() ? value.at("content").as_string() : value.as_string();
}

AddedTokens::AddedTokens(const std::vector<AddedToken>& all, bool normalized) {
  std::ranges::copy_if(all, std::back_inserter(tokens_),
                       [&](const AddedToken& each) { return each.normalized == normalized; });
  for (const AddedToken& each : tokens_) {
    check(each.text.size() <= kLongest, "[text] the added token {} has {} bytes, more than {}",
          each.id, each.text.size(), kLongest);
  }
  sort_by_text(tokens_);
}

void AddedTokens::normalize(const std::function<std::string(std::string_view)>& form) {
  for (AddedToken& token : tokens_) {
    token.text = form(token.text);
  }
  sort_by_text(tokens_);
}

const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  const AddedToken* found = nullptr;
  auto first = tokens_.begin();
  auto last = tokens_.end();
  for (size_t i = 0; i < text.size() && first != last; ++i) {
    // Tokens between first and last start with the text's first i bytes; one that ends there is
    // before the others.
    const auto byte = [i](const AddedToken& each) {
      return each.text.size() == i ? -1
                                   : static_cast<int>(static_cast<unsigned char>(each.text[i]));
    };
    const int wanted = static_cast<int>(static_cast<unsigned char>(text[i]));
    first = std::ranges::lower_bound(first, last, wanted, {}, byte);
    last = std::ranges::upper_bound(first, last, wanted, {}, byte);
    if (first != last && first->text.size() == i + 1) {
      found = &*first;
    }
  }
  return found;
}

void AddedTokens::split(std::string_view text, const std::function<void(std::string_view)>& section,
                        const std::function<void(int64_t)>& token) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* found = longest_at(text.substr(at));
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

}  // namespace kinema::text
