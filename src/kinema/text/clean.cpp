#include "kinema/text/clean.h"

#include "kinema/core/error.h"
#include "kinema/text/fix_text.h"
#include "kinema/text/html.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

/// Replaces every run of white space by one space, and removes it at the ends.
std::u32string collapse_white_space(std::u32string_view text) {
  std::u32string out;
  for (const char32_t c : text) {
    if (!is_python_space(c)) {
      out += c;
    } else if (!out.empty() && out.back() != U' ') {
      out += U' ';
    }
  }
  if (!out.empty() && out.back() == U' ') {
    out.pop_back();
  }
  return out;
}

}  // namespace

std::string clean_prompt(std::string_view prompt) {
  const size_t wrong = invalid_utf8_at(prompt);
  check(wrong == std::string_view::npos, "[text] the prompt is not UTF-8: byte {} is 0x{:02x}",
        wrong, wrong < prompt.size() ? static_cast<unsigned char>(prompt[wrong]) : 0);
  std::u32string text = decode_utf8(prompt);
  text = unescape_html(unescape_html(fix_text(text)));
  return encode_utf8(collapse_white_space(text));
}

}  // namespace kinema::text
