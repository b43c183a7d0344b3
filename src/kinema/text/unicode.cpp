#include "kinema/text/unicode.h"

#include <unicode/brkiter.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utext.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "kinema/core/error.h"

namespace kinema::text {
namespace {

constexpr char32_t kReplacement = 0xfffd;

/// The length of the sequence that a lead byte starts; 0 for other bytes.
size_t sequence_length(unsigned char lead) {
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xc2 && lead <= 0xdf) {
    return 2;
  }
  if (lead >= 0xe0 && lead <= 0xef) {
    return 3;
  }
  return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

/// RFC 3629, table of section 4: the second byte's range depends on the lead.
bool is_second_byte(unsigned char lead, unsigned char second) {
  const unsigned char low = lead == 0xe0 ? 0xa0 : (lead == 0xf0 ? 0x90 : 0x80);
  const unsigned char high = lead == 0xed ? 0x9f : (lead == 0xf4 ? 0x8f : 0xbf);
  return second >= low && second <= high;
}

bool is_trailing_byte(unsigned char c) { return c >= 0x80 && c <= 0xbf; }

const icu::Normalizer2& nfc() {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* made = icu::Normalizer2::getNFCInstance(status);
  check(U_SUCCESS(status) != 0, "[text] ICU has no NFC: {}", u_errorName(status));
  return *made;
}

/// The text with every run of marks in canonical order (Unicode, D109). ICU sorts them by
/// insertion, which for thousands of marks on one letter takes quadratic time.
std::u32string in_canonical_order(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t c : text) {
    const auto u = static_cast<UChar32>(c);
    // A mark of class 0 that decomposes into several others, as in Tibetan.
    icu::UnicodeString parts;
    if (u_getCombiningClass(u) == 0 &&
        u_getIntPropertyValue(u, UCHAR_LEAD_CANONICAL_COMBINING_CLASS) != 0 &&
        nfc().getDecomposition(u, parts) != 0) {
      for (int32_t i = 0; i < parts.length(); i = parts.moveIndex32(i, 1)) {
        out += static_cast<char32_t>(parts.char32At(i));
      }
    } else {
      out += c;
    }
  }
  const auto class_of = [](char32_t c) { return u_getCombiningClass(static_cast<UChar32>(c)); };
  for (auto begin = out.begin(); begin != out.end();) {
    const auto end = std::find_if(begin, out.end(), [&](char32_t c) { return class_of(c) == 0; });
    std::ranges::stable_sort(begin, end, {}, class_of);
    begin = end == out.end() ? end : end + 1;
  }
  return out;
}

}  // namespace

size_t invalid_utf8_at(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const size_t length = sequence_length(byte(i));
    if (length == 0 || length > text.size() - i ||
        (length > 1 && !is_second_byte(byte(i), byte(i + 1)))) {
      return i;
    }
    for (size_t j = 2; j < length; ++j) {
      if (!is_trailing_byte(byte(i + j))) {
        return i;
      }
    }
    i += length;
  }
  return std::string_view::npos;
}

char32_t next_code_point(std::string_view text, size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const size_t length = std::max<size_t>(1, sequence_length(lead));
  char32_t c = length == 1 ? lead : lead & (0x7fU >> length);
  for (size_t j = 1; j < length && at + j < text.size(); ++j) {
    c = (c << 6) | (static_cast<unsigned char>(text[at + j]) & 0x3fU);
  }
  at += length;
  return c;
}

std::u32string decode_utf8(std::string_view text) {
  const size_t wrong = invalid_utf8_at(text);
  check(wrong == std::string_view::npos, "[text] byte {} (0x{:02x}) is not UTF-8", wrong,
        wrong < text.size() ? static_cast<unsigned char>(text[wrong]) : 0);
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    out += next_code_point(text, i);
  }
  return out;
}

void append_utf8(std::string& to, char32_t c) {
  if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
    c = kReplacement;
  }
  const auto put = [&](char32_t byte) { to += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | (c >> 6));
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3f));
    put(0x80 | ((c >> 6) & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

std::string encode_utf8(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : text) {
    append_utf8(out, c);
  }
  return out;
}

bool is_white_space(char32_t c) {
  return c < 0x80 ? c == ' ' || (c >= '\t' && c <= '\r')
                  : u_isUWhiteSpace(static_cast<UChar32>(c)) != 0;
}

bool is_python_space(char32_t c) { return is_white_space(c) || (c >= 0x1c && c <= 0x1f); }

std::u32string compose(std::u32string_view text) {
  icu::UnicodeString given;
  for (const char32_t c : in_canonical_order(text)) {
    given.append(static_cast<UChar32>(c));
  }
  UErrorCode status = U_ZERO_ERROR;
  const icu::UnicodeString composed = nfc().normalize(given, status);
  check(U_SUCCESS(status) != 0, "[text] ICU cannot compose a text: {}", u_errorName(status));
  std::u32string out;
  out.reserve(static_cast<size_t>(composed.length()));
  for (int32_t i = 0; i < composed.length(); i = composed.moveIndex32(i, 1)) {
    out += static_cast<char32_t>(composed.char32At(i));
  }
  return out;
}

std::vector<size_t> grapheme_ends(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  UText source = UTEXT_INITIALIZER;
  utext_openUTF8(&source, text.data(), static_cast<int64_t>(text.size()), &status);
  check(U_SUCCESS(status) != 0, "[text] ICU finds no rules for characters: {}",
        u_errorName(status));
  breaks->setText(&source, status);
  std::vector<size_t> ends;
  ends.reserve(text.size());
  breaks->first();
  for (int32_t end = breaks->next(); end != icu::BreakIterator::DONE; end = breaks->next()) {
    ends.push_back(static_cast<size_t>(end));
  }
  utext_close(&source);
  return ends;
}

}  // namespace kinema::text
