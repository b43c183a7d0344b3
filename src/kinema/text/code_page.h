#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::text {

/// A single-byte encoding; bytes below 0x80 are ASCII.
class CodePage {
 public:
  /// `icu_name` is a converter of ICU. A sloppy page decodes unassigned bytes as Latin-1, and byte
  /// 0x1A as U+FFFD (a lost character).
  CodePage(const char* icu_name, bool sloppy);

  char32_t decode(unsigned char byte) const { return characters_[byte]; }
  /// The bytes of a text, or nothing if a character has none.
  std::optional<std::string> encode(std::u32string_view text) const;
  /// Overrides ICU's character of a byte.
  void assign(unsigned char byte, char32_t c);
  bool is_sloppy() const { return sloppy_; }

 private:
  std::array<char32_t, 256> characters_{};
  std::map<char32_t, unsigned char> bytes_;  // of characters above ASCII
  bool sloppy_;
};

/// The encodings that UTF-8 is most often mistaken for, the most likely first: Latin-1,
/// Windows-1252, 1251, 1250, 1253, 1254, 1257 (all sloppy), ISO 8859-2, Mac Roman, code page 437.
const std::vector<CodePage>& code_pages();

/// Windows-1252 as in browsers: bytes without a character are C1 controls.
char32_t windows_1252(unsigned char byte);

}  // namespace kinema::text
