#include <algorithm>
#include <map>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/media/canvas.h"
#include "kinema/media/image.h"

namespace kinema::media {
namespace {

// 3 x 5 letters: each digit is a row of three bits, from the top.
const std::map<char, std::string_view>& glyphs() {
  static const std::map<char, std::string_view> table = {
      {'A', "25755"}, {'B', "65656"}, {'C', "34443"},  {'D', "65556"}, {'E', "74647"},
      {'F', "74644"}, {'G', "34553"}, {'H', "55755"},  {'I', "72227"}, {'J', "11152"},
      {'K', "55655"}, {'L', "44447"}, {'M', "57755"},  {'N', "65555"}, {'O', "25552"},
      {'P', "65644"}, {'Q', "25563"}, {'R', "65655"},  {'S', "34216"}, {'T', "72222"},
      {'U', "55557"}, {'V', "55552"}, {'W', "55775"},  {'X', "55255"}, {'Y', "55222"},
      {'Z', "71247"}, {'0', "75557"}, {'1', "26227"},  {'2', "61247"}, {'3', "71317"},
      {'4', "55711"}, {'5', "74616"}, {'6', "34652"},  {'7', "71122"}, {'8', "25252"},
      {'9', "25316"}, {'.', "00002"}, {',', "00024"},  {'-', "00700"}, {'_', "00007"},
      {':', "02020"}, {'/', "11244"}, {'%', "51245"},  {'(', "12221"}, {')', "42224"},
      {'=', "07070"}, {'+', "02720"}, {'\'', "22000"}, {'"', "55000"}, {'!', "22202"},
      {'?', "61202"}, {'#', "57575"}, {'[', "64446"},  {']', "31113"}};
  return table;
}

constexpr int64_t kLetterWidth = 4;  // three plus a gap
constexpr int64_t kLineHeight = 7;
constexpr int64_t kMargin = 6;
constexpr uint8_t kPaper = 24;
constexpr uint8_t kInk = 220;

}  // namespace

void draw_small_letter(Canvas& canvas, int64_t top, int64_t left, int64_t size, char letter,
                       uint8_t level) {
  const uint8_t ink[3] = {level, level, level};
  const char upper =
      letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  const auto glyph = glyphs().find(upper);
  if (glyph == glyphs().end()) {
    return;  // a space, or a letter that is not in the small table
  }
  for (int64_t y = 0; y < 5 * size; ++y) {
    for (int64_t x = 0; x < 3 * size; ++x) {
      const int row = glyph->second[static_cast<size_t>(y / size)] - '0';
      if ((row >> (2 - x / size) & 1) != 0) {
        canvas.set(top + y, left + x, ink);
      }
    }
  }
}

namespace {

// Breaks at spaces so that each line has at most `columns` letters.
std::vector<std::string> wrap(const std::string& text, int64_t columns) {
  std::vector<std::string> lines(1);
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!lines.back().empty() &&
        static_cast<int64_t>(lines.back().size() + 1 + word.size()) > columns) {
      lines.emplace_back();
    }
    lines.back() += (lines.back().empty() ? "" : " ") + word;
    at = end + 1;
  }
  return lines;
}

void draw_frame(Canvas& canvas, int64_t top, int64_t left, const HostArray& video, int64_t frame,
                int64_t enlarge) {
  const int64_t height = video.shape.dims[1];
  const int64_t width = video.shape.dims[2];
  const uint8_t* in = video.as<uint8_t>().data() + frame * height * width * 3;
  for (int64_t y = 0; y < height * enlarge; ++y) {
    for (int64_t x = 0; x < width * enlarge; ++x) {
      canvas.set(top + y, left + x, in + ((y / enlarge) * width + x / enlarge) * 3);
    }
  }
}

}  // namespace

HostArray contact_sheet(std::span<const HostArray> videos, std::span<const std::string> labels,
                        const ContactSheetOptions& options) {
  check(!videos.empty(), "[image] a contact sheet needs at least one video");
  check(labels.empty() || labels.size() == videos.size(),
        "[image] {} labels were given for {} videos", labels.size(), videos.size());
  const Dims& size = videos[0].shape.dims;
  for (const HostArray& video : videos) {
    check(video.shape.dtype == DType::U8 && video.shape.rank() == 4 && video.shape.dims[3] == 3 &&
              video.shape.elements() > 0 && video.shape.dims[1] == size[1] &&
              video.shape.dims[2] == size[2],
          "[image] a contact sheet was given {} and {}: u8 [f, h, w, 3] of one size was expected",
          to_string(video.shape), to_string(videos[0].shape));
  }
  const int64_t enlarge = std::max<int64_t>(1, options.enlarge);
  const int64_t shown = std::clamp<int64_t>(options.frames_per_video, 1, size[0]);
  const int64_t frame_height = size[1] * enlarge;
  const int64_t frame_width = size[2] * enlarge;
  const int64_t cell_width = shown * (frame_width + 2) - 2;
  const int64_t text = cell_width >= 160 ? 2 : 1;  // letters twice as large if they fit
  const int64_t letters = std::max<int64_t>(4, cell_width / (kLetterWidth * text));
  int64_t lines = 0;
  for (const std::string& label : labels) {
    lines = std::max(lines, static_cast<int64_t>(wrap(label, letters).size()));
  }
  lines = std::min<int64_t>(lines, 4);
  const int64_t cell_height = frame_height + lines * kLineHeight * text + (lines > 0 ? 3 : 0);
  const auto count = static_cast<int64_t>(videos.size());
  const int64_t columns = std::clamp<int64_t>(options.columns, 1, count);
  const int64_t rows = (count + columns - 1) / columns;
  Canvas canvas(rows * (cell_height + kMargin) + kMargin,
                columns * (cell_width + kMargin) + kMargin, kPaper);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t top = kMargin + i / columns * (cell_height + kMargin);
    const int64_t left = kMargin + i % columns * (cell_width + kMargin);
    const HostArray& video = videos[static_cast<size_t>(i)];
    const int64_t frames = video.shape.dims[0];
    for (int64_t k = 0; k < shown; ++k) {
      const int64_t frame =
          shown == 1 ? frames / 2 : std::min(frames - 1, k * (frames - 1) / (shown - 1));
      draw_frame(canvas, top, left + k * (frame_width + 2), video, frame, enlarge);
    }
    if (labels.empty()) {
      continue;
    }
    const auto text_lines = wrap(labels[static_cast<size_t>(i)], letters);
    for (int64_t line = 0; line < std::min(lines, static_cast<int64_t>(text_lines.size()));
         ++line) {
      const std::string& letters_of = text_lines[static_cast<size_t>(line)];
      for (size_t c = 0; c < letters_of.size(); ++c) {
        draw_small_letter(canvas, top + frame_height + 3 + line * kLineHeight * text,
                          left + static_cast<int64_t>(c) * kLetterWidth * text, text, letters_of[c],
                          kInk);
      }
    }
  }
  return std::move(canvas.image);
}

}  // namespace kinema::media
