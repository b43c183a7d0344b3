#include "kinema/media/text_drawing.h"

#include <ft2build.h>
#include FT_FREETYPE_H

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <system_error>

namespace kinema::media {
namespace {

namespace fs = std::filesystem;

constexpr std::array kFolders{"/usr/share/fonts", "/usr/local/share/fonts"};
/// In order of preference: alphabets, then fonts with East Asian characters, then collections.
constexpr std::array<std::string_view, 10> kFiles{
    "DejaVuSans.ttf", "NotoSans-Regular.ttf",      "LiberationSans-Regular.ttf",
    "FreeSans.ttf",   "NotoSansCJK-Regular.ttc",   "wqy-microhei.ttc",
    "wqy-zenhei.ttc", "DroidSansFallbackFull.ttf", "unifont.ttf",
    "unifont.otf"};

/// The known fonts on this machine.
std::vector<fs::path> find_fonts() {
  std::map<size_t, fs::path> found;
  for (const char* folder : kFolders) {
    std::error_code error;
    fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied,
                                        error);
    for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
      const auto name = std::ranges::find(kFiles, at->path().filename().string());
      if (name != kFiles.end()) {
        found.emplace(static_cast<size_t>(name - kFiles.begin()), at->path());
      }
    }
  }
  std::vector<fs::path> out;
  for (const auto& [place, path] : found) {
    out.push_back(path);
  }
  return out;
}

}  // namespace

struct TextDrawing::Glyph {
  int64_t advance = 0;
  int64_t top = 0;   // of the bitmap, below the line's top
  int64_t left = 0;  // to the right of the character's origin
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<uint8_t> shares;  // [rows, columns] of 255
};

struct TextDrawing::Fonts {
  Fonts(int64_t line_height) {
    if (FT_Init_FreeType(&library) != 0) {
      library = nullptr;
      return;
    }
    for (const fs::path& path : find_fonts()) {
      FT_Face face = nullptr;
      if (FT_New_Face(library, path.c_str(), 0, &face) != 0) {
        continue;
      }
      // Letters with accents and descenders fill four fifths of a line.
      if (FT_Set_Pixel_Sizes(face, 0, static_cast<FT_UInt>(line_height * 4 / 5)) != 0) {
        FT_Done_Face(face);
        continue;
      }
      faces.push_back(face);
    }
  }
  Fonts(const Fonts&) = delete;
  Fonts& operator=(const Fonts&) = delete;
  ~Fonts() {
    for (FT_Face face : faces) {
      FT_Done_Face(face);
    }
    if (library != nullptr) {
      FT_Done_FreeType(library);
    }
  }

  FT_Library library = nullptr;
  std::vector<FT_Face> faces;
  std::map<char32_t, Glyph> glyphs;
};

TextDrawing::TextDrawing(int64_t line_height)
    : line_height_(line_height), fonts_(std::make_unique<Fonts>(line_height)) {}

TextDrawing::~TextDrawing() = default;

const TextDrawing::Glyph& TextDrawing::glyph(char32_t character) {
  const auto [place, is_new] = fonts_->glyphs.try_emplace(character);
  Glyph& out = place->second;
  if (!is_new) {
    return out;
  }
  out.advance = line_height_ / 2;
  for (FT_Face face : fonts_->faces) {
    const FT_UInt index = FT_Get_Char_Index(face, character);
    // The last font's box replaces characters without a glyph.
    if ((index == 0 && face != fonts_->faces.back()) ||
        FT_Load_Glyph(face, index, FT_LOAD_RENDER) != 0) {
      continue;
    }
    const FT_GlyphSlot slot = face->glyph;
    const FT_Bitmap& bitmap = slot->bitmap;
    out.advance = slot->advance.x >> 6;
    out.left = slot->bitmap_left;
    out.top = line_height_ * 4 / 5 - slot->bitmap_top;
    if (bitmap.pixel_mode != FT_PIXEL_MODE_GRAY && bitmap.pixel_mode != FT_PIXEL_MODE_MONO) {
      return out;  // colour emoji stay blank
    }
    out.rows = bitmap.rows;
    out.columns = bitmap.width;
    for (int64_t y = 0; y < out.rows; ++y) {
      const uint8_t* row = bitmap.buffer + y * bitmap.pitch;
      for (int64_t x = 0; x < out.columns; ++x) {
        out.shares.push_back(bitmap.pixel_mode == FT_PIXEL_MODE_GRAY ? row[x]
                             : (row[x / 8] >> (7 - x % 8) & 1) != 0  ? uint8_t{255}
                                                                     : uint8_t{0});
      }
    }
    return out;
  }
  return out;
}

int64_t TextDrawing::width_of(std::u32string_view text) {
  int64_t out = 0;
  for (const char32_t each : text) {
    out += glyph(each).advance;
  }
  return out;
}

std::vector<std::u32string> TextDrawing::wrap(std::u32string_view text, int64_t width,
                                              size_t most_lines) {
  std::vector<std::u32string> lines;
  while (!text.empty() && lines.size() < most_lines) {
    size_t end = 0;
    size_t blank = 0;  // end of the last word that fits
    for (int64_t used = 0; end < text.size(); ++end) {
      used += glyph(text[end]).advance;
      if (used > width && end > 0) {
        break;
      }
      blank = text[end] == U' ' ? end : blank;
    }
    const bool in_a_word = end < text.size() && text[end] != U' ';
    const size_t cut = in_a_word && blank > 0 ? blank : end;
    lines.emplace_back(text.substr(0, cut));
    text.remove_prefix(cut);
    while (text.starts_with(U' ')) {
      text.remove_prefix(1);
    }
  }
  if (!text.empty() && !lines.empty()) {
    std::u32string& last = lines.back();
    while (!last.empty() && width_of(last + U"..") > width) {
      last.pop_back();
    }
    last += U"..";
  }
  return lines;
}

void TextDrawing::draw(Canvas& canvas, int64_t top, int64_t left, std::u32string_view line,
                       uint8_t level) {
  for (const char32_t character : line) {
    const Glyph& each = glyph(character);
    if (fonts_->faces.empty()) {
      const int64_t size = std::max<int64_t>(1, line_height_ / 8);
      draw_small_letter(canvas, top + size, left, size,
                        character < 0x80 ? static_cast<char>(character) : '?', level);
    }
    for (int64_t y = 0; y < each.rows; ++y) {
      for (int64_t x = 0; x < each.columns; ++x) {
        canvas.blend(top + each.top + y, left + each.left + x, level,
                     each.shares[static_cast<size_t>(y * each.columns + x)]);
      }
    }
    left += each.advance;
  }
}

}  // namespace kinema::media
