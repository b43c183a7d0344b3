#include "kinema/text/code_page.h"

#include <unicode/ucnv.h>

#include <memory>

#include "kinema/core/error.h"

namespace kinema::text {
namespace {

constexpr char32_t kReplacement = 0xfffd;
constexpr unsigned char kSubstitute = 0x1a;

/// ICU's result for a byte without a character: the replacement character, or a private one.
bool is_unassigned(char32_t c) { return c == kReplacement || (c >= 0xe000 && c < 0xf8ff); }

char32_t decode_one(UConverter* converter, unsigned char byte) {
  const char* from = reinterpret_cast<const char*>(&byte);
  UErrorCode status = U_ZERO_ERROR;
  const UChar32 c = ucnv_getNextUChar(converter, &from, from + 1, &status);
  return U_SUCCESS(status) != 0 ? static_cast<char32_t>(c) : kReplacement;
}

}  // namespace

CodePage::CodePage(const char* icu_name, bool sloppy) : sloppy_(sloppy) {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<UConverter, void (*)(UConverter*)> converter(
      ucnv_open(icu_name, &status), [](UConverter* c) { ucnv_close(c); });
  check(U_SUCCESS(status) != 0, "[text] ICU has no converter `{}`: {}", icu_name,
        u_errorName(status));
  for (int byte = 0; byte < 256; ++byte) {
    char32_t c = static_cast<char32_t>(byte);
    if (byte >= 0x80) {
      c = decode_one(converter.get(), static_cast<unsigned char>(byte));
      if (is_unassigned(c)) {
        c = static_cast<char32_t>(byte);
      }
      bytes_[c] = static_cast<unsigned char>(byte);
    }
    characters_[static_cast<size_t>(byte)] = c;
  }
  if (sloppy) {
    characters_[kSubstitute] = kReplacement;
    bytes_[kReplacement] = kSubstitute;
  }
}

void CodePage::assign(unsigned char byte, char32_t c) {
  bytes_.erase(characters_[byte]);
  characters_[byte] = c;
  bytes_[c] = byte;
}

std::optional<std::string> CodePage::encode(std::u32string_view text) const {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : text) {
    if (c < 0x80) {
      // The substitute of a lost character cannot also be itself.
      if (sloppy_ && c == kSubstitute) {
        return std::nullopt;
      }
      out += static_cast<char>(c);
      continue;
    }
    const auto byte = bytes_.find(c);
    if (byte == bytes_.end()) {
      return std::nullopt;
    }
    out += static_cast<char>(byte->second);
  }
  return out;
}

const std::vector<CodePage>& code_pages() {
  static const std::vector<CodePage> pages = [] {
    std::vector<CodePage> all;
    all.emplace_back("ISO-8859-1", false);
    for (const char* name : {"windows-1252", "windows-1251", "windows-1250", "windows-1253",
                             "windows-1254", "windows-1257"}) {
      all.emplace_back(name, true);
    }
    for (const char* name : {"ISO-8859-2", "macintosh", "ibm-437"}) {
      all.emplace_back(name, false);
    }
    all.back().assign(0xe6, U'\u00b5');  // ICU has the Greek letter there, CP437.TXT the micro sign
    return all;
  }();
  return pages;
}

char32_t windows_1252(unsigned char byte) {
  return byte == kSubstitute ? kSubstitute : code_pages()[1].decode(byte);
}

}  // namespace kinema::text
