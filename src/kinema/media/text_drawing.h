#pragma once

// Private to the module: text in pictures, through FreeType.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/media/canvas.h"

namespace kinema::media {

/// Draws text in any script of the machine's fonts: each character in the first font that has it,
/// from left to right, without shaping; a missing one is an empty box. Without a known font, it
/// draws small ASCII letters.
class TextDrawing {
 public:
  /// `line_height` in pixels.
  explicit TextDrawing(int64_t line_height);
  TextDrawing(const TextDrawing&) = delete;
  TextDrawing& operator=(const TextDrawing&) = delete;
  ~TextDrawing();

  int64_t line_height() const { return line_height_; }
  /// The text in lines of at most `width` pixels, broken at blanks, or anywhere in a longer word;
  /// at most `most_lines` lines, of which the last then ends with an ellipsis.
  std::vector<std::u32string> wrap(std::u32string_view text, int64_t width, size_t most_lines);
  void draw(Canvas& canvas, int64_t top, int64_t left, std::u32string_view line, uint8_t level);

 private:
  struct Glyph;
  struct Fonts;
  const Glyph& glyph(char32_t character);
  int64_t width_of(std::u32string_view text);

  int64_t line_height_;
  std::unique_ptr<Fonts> fonts_;
};

}  // namespace kinema::media
