#include "kinema/text/mojibake.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kinema/text/code_page.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

// Typical roles of a code point. Only those that occur in misread UTF-8 have a kind.
enum Kind : uint32_t {
  kCommon = 1U << 0,  // common in correct text
  kC1 = 1U << 1,      // control characters 80 to 9F
  kBad = 1U << 2,     // rare in correct text
  kLaw = 1U << 3,
  kCurrency = 1U << 4,
  kOpening = 1U << 5,  // punctuation before a word
  kClosing = 1U << 6,  // and after one
  kNumeric = 1U << 7,
  kKaomoji = 1U << 8,        // letters used in kaomoji
  kUpperAccented = 1U << 9,  // letters with diacritics that rarely end a word
  kLowerAccented = 1U << 10,
  kUpperCommon = 1U << 11,  // Greek and Cyrillic letters
  kLowerCommon = 1U << 12,
  kBox = 1U << 13,
  kSmall = 1U << 14,  // a to z
  kCapital = 1U << 15,
  kSpace = 1U << 16,
  kWord = 1U << 17,  // letters, numbers, underscore
  kLineBreak = 1U << 18,
};

constexpr uint32_t kAccented = kUpperAccented | kLowerAccented;
constexpr uint32_t kLatin = kSmall | kCapital;

struct KindRanges {
  uint32_t kind;
  std::string_view ranges;  // code points in hexadecimal
};

constexpr KindRanges kKinds[] = {
    {kCommon, "a0 ad b4 b7 2013-2015 2019 2026"},
    {kC1, "80-9f"},
    {kBad, "a4 a6 a8 aa ac af b8 ba 192 2c6-2c7 2d8 2db-2dc 2020-2021 2030 2310 25ca fffd"},
    {kLaw, "a7 b6"},
    {kCurrency, "a2-a3 a5 20a7 20ac"},
    {kOpening, "a1 a9 ab bf 384-385 2018 201a 201c 201e 2022 2039 f8ff"},
    {kClosing, "ae bb 2dd 201d 203a 2122"},
    {kNumeric,
     "b1-b3 b5 b9 bc-be d7 f7 2044 2116 2202 2206 220f 2211 221a 221e 2229 222b 2248 2260-2261 "
     "2264-2265"},
    {kKaomoji, "b0 d2-d6 d9-dc f2-f6 f8-fc 14c 150 16a 172"},
    {kUpperAccented,
     "c0-d1 d8 dc-dd 100 102 104 106 10c 10e 110 112 116 118 11a 11e 122 12a 130 136 139 13b 13d "
     "141 143 145 147 152 158 15a 15e 160 162 164 16e 170 178-179 17b 17d 490"},
    {kLowerAccented,
     "df-f1 fc 101 103 105 107 10d 10f 111 113 117 119 11b 11f 123 12b 12f 137 13a 13c 13e 142 153 "
     "155 15b 15f 161 165 17a 17c 17e 491 fb01-fb02"},
    {kUpperCommon, "de 386 388-38a 38c 38e-38f 391-3ab 401-42f"},
    {kLowerCommon, "3ac-3c9 430-45f"},
    {kBox,
     "2502 250c 2510 2514 2518 251c 2524 252c 2534 253c 2550-256c 2580 2584 2588 258c 2590-2593"},
    {kSmall, "61-7a"},
    {kCapital, "41-5a"},
    {kLineBreak, "a"},
};

using Kinds = std::unordered_map<char32_t, uint32_t>;

Kinds read_kinds() {
  Kinds kinds;
  for (const KindRanges& each : kKinds) {
    std::string_view rest = each.ranges;
    while (!rest.empty()) {
      const std::string range(rest.substr(0, rest.find(' ')));
      rest.remove_prefix(std::min(range.size() + 1, rest.size()));
      const size_t dash = range.find('-');
      const auto first = static_cast<char32_t>(std::stoul(range, nullptr, 16));
      const auto last =
          dash == std::string::npos
              ? first
              : static_cast<char32_t>(std::stoul(range.substr(dash + 1), nullptr, 16));
      for (char32_t c = first; c <= last; ++c) {
        kinds[c] |= each.kind;
      }
    }
  }
  return kinds;
}

/// `\w` of Python's regular expressions, in which marks are not part of a word.
bool is_word(char32_t c) {
  const uint32_t mask = U_MASK(u_charType(static_cast<UChar32>(c)));
  return c == U'_' || (mask & (U_GC_L_MASK | U_GC_N_MASK)) != 0;
}

uint32_t kind_of(char32_t c) {
  static const Kinds kinds = read_kinds();
  const auto found = kinds.find(c);
  return (found == kinds.end() ? 0U : found->second) | (is_python_space(c) ? kSpace : 0U) |
         (is_word(c) ? kWord : 0U);
}

// ---- Rules -----------------------------------------------------------------------------------

/// One position of a rule: a code point of one of the kinds, or one of a list.
struct Place {
  uint32_t kinds = 0;
  std::u32string_view also = {};
  bool inverted = false;

  bool holds(char32_t c, uint32_t kind) const {
    return ((kind & kinds) != 0 || also.find(c) != std::u32string_view::npos) != inverted;
  }
};

struct Rule {
  std::array<Place, 7> places;  // the first empty place ends the rule
  bool at_start = false;        // only at the start of the text

  bool fits(std::u32string_view text, std::span<const uint32_t> kinds, size_t start) const {
    for (const Place& place : places) {
      if (place.kinds == 0 && place.also.empty()) {
        return true;
      }
      if (start >= text.size() || !place.holds(text[start], kinds[start])) {
        return false;
      }
      ++start;
    }
    return true;
  }
};

constexpr uint32_t kMarks = kBox | kOpening | kClosing | kCurrency | kNumeric | kLaw;
// The first bytes of Cyrillic and Greek A to I in UTF-8, and the characters that may separate two.
constexpr std::u32string_view kCyrillicLeads = U"\u0412\u0413\u0420\u0421";
constexpr std::u32string_view kGreekLeads = U"\u0392\u0393\u039e\u039f";
constexpr uint32_t kBetweenLeads = kC1 | kBad | kOpening | kClosing | kCurrency;
constexpr std::u32string_view kArabicLeads = U"\u00d8\u00d9";
constexpr Place kArabicRest{kCommon | kCurrency | kBad | kNumeric | kOpening,
                            U"\u0178\u0160\u00ae\u00b0\u00b5\u00bb"};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      {{{{kC1}}}},
      {{{{kBad | kAccented | kMarks}, {kBad}}}},
      {{{{kLatin}, {kLowerCommon | kUpperCommon}, {kBad}}}},
      {{{{kBad}, {kAccented | kMarks}}}},
      {{{{kLowerAccented | kLowerCommon | kBox | kClosing | kCurrency | kNumeric},
         {kUpperAccented}}}},
      {{{{kBox | kClosing | kCurrency | kNumeric}, {kLowerAccented}}}},
      {{{{kLowerAccented | kBox | kClosing}, {kCurrency}}}},
      {{{{kSpace}, {kUpperAccented}, {kCurrency}}}},
      {{{{kUpperAccented | kBox}, {kNumeric | kLaw}}}},
      {{{{kAccented | kBox | kCurrency | kClosing}, {kOpening}, {kNumeric}}}},
      {{{{kAccented | kCurrency | kNumeric | kBox | kLaw}, {kClosing}, {kOpening}}}},
      {{{{kCurrency | kNumeric | kBox}, {kOpening}}}},
      {{{{kSmall}, {kUpperAccented}, {kOpening | kCurrency}}}},
      {{{{kBox}, {kKaomoji}}}},
      {{{{kAccented | kCurrency | kNumeric | kOpening | kClosing | kLaw}, {kBox}}}},
      {{{{kBox}, {kClosing}}}},
      {{{{kAccented}, {kOpening | kClosing}, {kWord}}}},
      // The ligature oe that no letter follows.
      {{{{0, U"\u0152\u0153"}, {kLatin, U"", true}}}},
      // A degree sign after a capital.
      {{{{kUpperAccented}, {0, U"\u00b0"}}}},
      // Two characters of Windows-1252 that are Latin-1 letters and signs in UTF-8.
      {{{{0, U"\u00c2\u00c3\u00ce\u00d0"},
         {kOpening | kClosing,
          U"\u20ac\u0153\u0160\u0161\u00a2\u00a3\u0178\u017e\u00a0\u00ad\u00ae\u00a9\u00b0\u00b7"
          U"\u00bb\u2013\u2014\u00b4"}}}},
      {{{{0, U"\u00d7"}, {0, U"\u00b2\u00b3"}}}},
      // Two consecutive Arabic letters, in Windows-1252.
      {{{{0, kArabicLeads}, kArabicRest, {0, kArabicLeads}, kArabicRest}}},
      // Scripts of South Asia, in Windows-1252.
      {{{{0, U"\u00e0"}, {0, U"\u00b2\u00b5\u00b9\u00bc\u00bd\u00be"}}}},
      // Mac Roman.
      {{{{0, U"\u221a"},
         {0, U"\u00b1\u2202\u2020\u2260\u00ae\u2122\u00b4\u2264\u2265\u00a5\u00b5\u00f8"}}}},
      {{{{0, U"\u2248"}, {0, U"\u00b0\u00a2"}}}},
      {{{{0, U"\u201a"},
         {0, U"\u00c4"},
         {0, U"\u00ec\u00ee\u00ef\u00f2\u00f4\u00f5\u00fa\u00f9\u00fb\u2020\u00b0\u00a2\u03c0"}}}},
      {{{{0, U"\u201a"}, {0, U"\u00e2\u00f3"}, {0, U"\u00e0\u00e4\u00b0\u00ea"}}}},
      // Windows-1251: punctuation, and Cyrillic or Latin-1 letters.
      {{{{0, U"\u0432"}, {0, U"\u0402"}}}},
      {{{{0, kCyrillicLeads}, {kBetweenLeads, U"\u00b0\u00b5"}, {0, kCyrillicLeads}}}},
      // The same, after Latin-1 read as Windows-1252, with a Latin letter nearby.
      {{{{0, U"\u0413"},
         {0, U"\u045e"},
         {0, U"\u0412"},
         {0, U"\u0402"},
         {0, U"\u0412"},
         {kLineBreak, U"", true},
         {kLatin, U" "}}}},
      // A with grave or acute, and the non-breaking space, in Windows-1252.
      {{{{0, U"\u00c3"}, {0, U"\u00a0\u00a1"}}}},
      {{{{kSmall}, {0, U"\u00c3\u00c2"}, {0, U" "}}}},
      {{{{kSmall}, {kSpace}, {0, U"\u00c3\u00c2"}, {0, U" "}}}},
      {{{{0, U"\u00c3\u00c2"}, {0, U" "}}}, true},
      // A with circumflex before a character of which it is the first byte.
      {{{{kSmall | kClosing, U".,?!"}, {0, U"\u00c2"}, {kOpening | kClosing, U" "}}}},
      // Windows-1253: punctuation, and Greek or Latin-1 letters.
      {{{{0, U"\u03b2"}, {0, U"\u20ac"}, {0, U"\u2122\u00a0\u0386\u00ad\u00ae\u00b0"}}}},
      {{{{0, kGreekLeads}, {kBetweenLeads, U"\u00b0"}, {0, kGreekLeads}}}},
      // Windows-1257.
      {{{{0, U"\u0101"}, {0, U"\u20ac"}}}},
  };
  return all;
}

// ---- Misread sequences -----------------------------------------------------------------------

/// The code points of Latin-1 and the Windows pages for bytes of a kind.
struct Leads {
  std::u32string of_two, of_three, of_four;
  std::u32string rest;         // continuation bytes, and the space that A0 may have become
  std::u32string strict_rest;  // those that are rare as themselves
};

/// Dashes, quotation marks, bullet and ellipsis.
bool is_punctuation(char32_t c) { return c >= 0x2013 && c <= 0x2026 && c != 0x2020 && c != 0x2021; }

const Leads& leads() {
  static const Leads all = [] {
    // Latin-1 and the Windows pages are first in the list.
    constexpr size_t kPages = 7;
    const auto at = [&](std::initializer_list<std::pair<int, int>> bytes) {
      std::u32string out;
      for (size_t page = 0; page < kPages; ++page) {
        for (const auto& [first, last] : bytes) {
          for (int byte = first; byte <= last; ++byte) {
            out += code_pages()[page].decode(static_cast<unsigned char>(byte));
          }
        }
      }
      std::ranges::sort(out);
      out.erase(std::unique(out.begin(), out.end()), out.end());
      return out;
    };
    Leads made{.of_two = at({{0xc2, 0xdf}}),
               .of_three = at({{0xe0, 0xef}}),
               // The others encode nothing that is assigned.
               .of_four = at({{0xf0, 0xf0}, {0xf3, 0xf3}}),
               .rest = at({{0x80, 0xbf}})};
    made.strict_rest = made.rest;
    std::erase_if(made.strict_rest, is_punctuation);
    made.rest.insert(made.rest.begin(), U' ');
    return made;
  }();
  return all;
}

bool is_in(std::u32string_view sorted, char32_t c) { return std::ranges::binary_search(sorted, c); }

/// The length of one misread sequence at `start`; 0 if there is none.
size_t sequence_length(std::u32string_view text, size_t start) {
  const Leads& known = leads();
  size_t rest = 0;
  while (start + 1 + rest < text.size() && rest < 3 && is_in(known.rest, text[start + 1 + rest])) {
    ++rest;
  }
  const std::pair<const std::u32string*, size_t> kinds[] = {
      {&known.of_two, 1}, {&known.of_three, 2}, {&known.of_four, 3}};
  for (const auto& [lead, needed] : kinds) {
    if (rest >= needed && is_in(*lead, text[start])) {
      return 1 + needed;
    }
  }
  return 0;
}

}  // namespace

bool looks_garbled(std::u32string_view text) {
  std::vector<uint32_t> kinds(text.size());
  std::ranges::transform(text, kinds.begin(), kind_of);
  for (size_t start = 0; start < text.size(); ++start) {
    for (const Rule& rule : rules()) {
      if ((!rule.at_start || start == 0) && rule.fits(text, kinds, start)) {
        return true;
      }
    }
  }
  return false;
}

size_t misread_utf8_length(std::u32string_view text, size_t start) {
  if (start > 0 && is_in(leads().strict_rest, text[start - 1])) {
    return 0;
  }
  size_t end = start;
  while (end < text.size()) {
    const size_t length = sequence_length(text, end);
    if (length == 0) {
      break;
    }
    end += length;
  }
  return end - start;
}

}  // namespace kinema::text
