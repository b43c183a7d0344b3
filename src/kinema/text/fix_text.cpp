#include "kinema/text/fix_text.h"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/text/fix_encoding.h"
#include "kinema/text/html.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

// Longer lines are processed in segments of this length.
constexpr size_t kLongestSegment = 1000000;
// Text that was garbled several times needs as many passes, and real text is not garbled often. The
// bound is for texts such as `&#xFF06;#xFF06;#xFF06;...`, in which each pass creates work for the
// next.
constexpr int kMostPasses = 16;

std::u32string to_u32(const icu::UnicodeString& text) {
  std::u32string out;
  out.reserve(static_cast<size_t>(text.length()));
  for (int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
    out += static_cast<char32_t>(text.char32At(i));
  }
  return out;
}

const icu::Normalizer2& nfkc() {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* made = icu::Normalizer2::getNFKCInstance(status);
  check(U_SUCCESS(status) != 0, "[text] ICU has no NFKC: {}", u_errorName(status));
  return *made;
}

std::u32string to_nfc(std::u32string_view text) {
  if (std::ranges::all_of(text, [](char32_t c) { return c < 0x300; })) {
    return std::u32string(text);  // nothing below composes
  }
  return compose(text);
}

/// Letters that are digraphs or ligatures: Dutch, Afrikaans, Serbian and Croatian ones, and the
/// ligatures of f and st.
bool is_ligature(char32_t c) {
  return c == 0x132 || c == 0x133 || c == 0x149 || (c >= 0x1c4 && c <= 0x1cc) ||
         (c >= 0x1f1 && c <= 0x1f3) || (c >= 0xfb00 && c <= 0xfb06);
}

/// Full- and half-width forms, and the ideographic space.
bool has_width_form(char32_t c) { return (c >= 0xff01 && c <= 0xffef) || c == 0x3000; }

bool is_removed_control(char32_t c) {
  return c <= 0x08 || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f ||
         (c >= 0x206a && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffc);
}

bool is_line_break(char32_t c) { return c == U'\r' || c == 0x2028 || c == 0x2029 || c == 0x85; }

char32_t straight_quote(char32_t c) {
  if (c == 0x2bc || (c >= 0x2018 && c <= 0x201b)) {
    return U'\'';
  }
  return c >= 0x201c && c <= 0x201f ? U'"' : c;
}

std::u32string split_ligatures(std::u32string_view text) {
  std::u32string out;
  for (const char32_t c : text) {
    icu::UnicodeString parts;
    if (is_ligature(c) && nfkc().getRawDecomposition(static_cast<UChar32>(c), parts) != 0) {
      out += to_u32(parts);
    } else {
      out += c;
    }
  }
  return out;
}

std::u32string to_usual_width(std::u32string_view text) {
  std::u32string out;
  for (const char32_t c : text) {
    if (!has_width_form(c)) {
      out += c;
      continue;
    }
    UErrorCode status = U_ZERO_ERROR;
    out += to_u32(nfkc().normalize(icu::UnicodeString(static_cast<UChar32>(c)), status));
  }
  return out;
}

std::u32string to_unix_lines(std::u32string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == U'\r' && i + 1 < text.size() && text[i + 1] == U'\n') {
      continue;
    }
    out += is_line_break(text[i]) ? U'\n' : text[i];
  }
  return out;
}

bool is_high(char32_t c) { return c >= 0xd800 && c <= 0xdbff; }
bool is_low(char32_t c) { return c >= 0xdc00 && c <= 0xdfff; }

std::u32string join_surrogates(std::u32string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char32_t c = text[i];
    if (is_high(c) && i + 1 < text.size() && is_low(text[i + 1])) {
      out.push_back(0x10000 + ((c - 0xd800) << 10) + (text[++i] - 0xdc00));
    } else {
      out += is_high(c) || is_low(c) ? U'\ufffd' : c;
    }
  }
  return out;
}

bool is_ascii_letter(char32_t c) { return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z'); }

/// Removes escapes that move the cursor or set colours: ESC [ numbers, a letter.
std::u32string remove_terminal_escapes(std::u32string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with(U"\u001b[")) {
      size_t end = i + 2;
      while (end < text.size() &&
             (text[end] == U';' || u_isdigit(static_cast<UChar32>(text[end])) != 0)) {
        ++end;
      }
      if (end < text.size() && is_ascii_letter(text[end])) {
        i = end;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

std::u32string fix_once(std::u32string text, bool read_html) {
  if (read_html) {
    text = unescape_html_strictly(text);
  }
  text = fix_c1_controls(fix_encoding(std::move(text)));
  text = to_usual_width(split_ligatures(text));
  std::ranges::transform(text, text.begin(), straight_quote);
  text = remove_terminal_escapes(join_surrogates(to_unix_lines(text)));
  std::erase_if(text, is_removed_control);
  return to_nfc(text);
}

}  // namespace

std::u32string fix_text(std::u32string_view text) {
  std::u32string out;
  bool read_html = true;
  while (!text.empty()) {
    const size_t line = std::min(text.find(U'\n'), text.size() - 1) + 1;
    const std::u32string_view segment = text.substr(0, std::min(line, kLongestSegment));
    text.remove_prefix(segment.size());
    // If there are tags, references are intentional.
    read_html = read_html && segment.find(U'<') == std::u32string_view::npos;
    std::u32string fixed(segment);
    for (int pass = 0; pass < kMostPasses; ++pass) {
      std::u32string next = fix_once(fixed, read_html);
      if (next == fixed) {
        break;
      }
      fixed = std::move(next);
    }
    out += fixed;
  }
  return out;
}

}  // namespace kinema::text
