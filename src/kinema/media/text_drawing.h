#pragma once

// Private to the room: text in pictures, through FreeType.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/media/canvas.h"

namespace kinema::media {

/// Draws text of any script that the machine's fonts have: each character in the first font that
/// has it, from left to right, without shaping; one that none has is an empty box. Where the
/// machine has no font that is known here, small letters of ASCII.
class TextDrawing {
 public:
  /// Of so many pixels a line.
  explicit TextDrawing(int64_t line_height);
  TextDrawing(const TextDrawing&) = delete;
  TextDrawing& operator=(const TextDrawing&) = delete;
  ~TextDrawing();

  int64_t line_height() const { return line_height_; }
  /// The text in lines of at most `width` pixels, broken at blanks, or anywhere in a longer word;
  /// at most so many lines, the last of which then ends with an ellipsis.
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
