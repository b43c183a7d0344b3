#include "kinema/media/sample_sheet.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/media/canvas.h"
#include "kinema/media/image.h"
#include "kinema/media/text_drawing.h"

namespace kinema::media {
namespace {

constexpr int64_t kMargin = 12;
constexpr int64_t kBetweenFrames = 2;
constexpr int64_t kLineHeight = 17;
constexpr int64_t kNarrowest = 160;  // width of a cell with text
constexpr uint8_t kPaper = 24;
constexpr uint8_t kInk = 225;
constexpr uint8_t kFaintInk = 150;

/// One frame, u8 [h, w, 3], reduced so that no side is longer than `side`.
HostArray shown(const HostArray& frames, int64_t frame, int64_t side) {
  const Dims& dims = frames.shape.dims;
  const int64_t height = dims[1];
  const int64_t width = dims[2];
  HostArray out(Shape{DType::U8, {height, width, 3}});
  std::ranges::copy(
      frames.as<uint8_t>().subspan(static_cast<size_t>(frame) * out.bytes.size(), out.bytes.size()),
      out.as<uint8_t>().begin());
  const int64_t longer = std::max(height, width);
  if (longer > side) {
    const double scale = static_cast<double>(side) / static_cast<double>(longer);
    const auto scaled = [&](int64_t size) {
      return std::max<int64_t>(1, std::llround(static_cast<double>(size) * scale));
    };
    return resize_image(out, scaled(height), scaled(width), Filter::Lanczos);
  }
  const int64_t times = std::max<int64_t>(1, side / 2 / longer);
  HostArray larger(Shape{DType::U8, {height * times, width * times, 3}});
  for (int64_t y = 0; y < height * times; ++y) {
    for (int64_t x = 0; x < width * times; ++x) {
      const auto from =
          out.as<uint8_t>().subspan(static_cast<size_t>((y / times * width + x / times) * 3), 3);
      std::ranges::copy(from, larger.as<uint8_t>().begin() + (y * width * times + x) * 3);
    }
  }
  return larger;
}

struct Drawn {
  std::vector<HostArray> frames;
  std::vector<std::u32string> lines;  // the first is the title
  int64_t width = 0;
  int64_t height = 0;  // of the frames
};

}  // namespace

HostArray sample_sheet(std::span<const SheetCell> cells, const SampleSheetOptions& options) {
  check(!cells.empty(), "[image] a sheet needs at least one sample");
  TextDrawing text(kLineHeight);
  std::vector<Drawn> drawn;
  int64_t cell_width = kNarrowest;
  for (const SheetCell& cell : cells) {
    const Shape& shape = cell.frames.shape;
    check(
        shape.dtype == DType::U8 && shape.rank() == 4 && shape.dims[3] == 3 && shape.elements() > 0,
        "[image] a sheet was given {}, u8 [f, h, w, 3] was expected", to_string(shape));
    Drawn& each = drawn.emplace_back();
    for (int64_t frame = 0; frame < shape.dims[0]; ++frame) {
      each.frames.push_back(shown(cell.frames, frame, options.side));
      each.width += each.frames.back().shape.dims[1] + (frame == 0 ? 0 : kBetweenFrames);
      each.height = each.frames.back().shape.dims[0];
    }
    cell_width = std::max(cell_width, each.width);
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    drawn[i].lines = text.wrap(cells[i].title, cell_width, 1);
    drawn[i].lines.resize(1);
    for (std::u32string& line : text.wrap(cells[i].caption, cell_width, options.caption_lines)) {
      drawn[i].lines.push_back(std::move(line));
    }
  }
  const auto count = static_cast<int64_t>(cells.size());
  const int64_t columns =
      std::clamp<int64_t>((options.most_width - kMargin) / (cell_width + kMargin), 1, count);
  // Each row of cells is as high as its highest cell.
  std::vector<int64_t> tops{kMargin};
  for (int64_t first = 0; first < count; first += columns) {
    int64_t highest = 0;
    for (int64_t i = first; i < std::min(first + columns, count); ++i) {
      const Drawn& each = drawn[static_cast<size_t>(i)];
      highest = std::max(highest, each.height + 4 + std::ssize(each.lines) * kLineHeight);
    }
    tops.push_back(tops.back() + highest + kMargin);
  }
  Canvas canvas(tops.back(), columns * (cell_width + kMargin) + kMargin, kPaper);
  for (int64_t i = 0; i < count; ++i) {
    const Drawn& each = drawn[static_cast<size_t>(i)];
    const int64_t top = tops[static_cast<size_t>(i / columns)];
    int64_t left = kMargin + i % columns * (cell_width + kMargin);
    for (size_t line = 0; line < each.lines.size(); ++line) {
      text.draw(canvas, top + each.height + 4 + static_cast<int64_t>(line) * kLineHeight, left,
                each.lines[line], line == 0 ? kFaintInk : kInk);
    }
    for (const HostArray& frame : each.frames) {
      const int64_t height = frame.shape.dims[0];
      const int64_t width = frame.shape.dims[1];
      for (int64_t y = 0; y < height; ++y) {
        for (int64_t x = 0; x < width; ++x) {
          canvas.set(top + y, left + x, frame.as<uint8_t>().data() + (y * width + x) * 3);
        }
      }
      left += width + kBetweenFrames;
    }
  }
  return std::move(canvas.image);
}

}  // namespace kinema::media
