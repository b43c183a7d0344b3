#include "kinema/cli/drawing.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kinema/core/error.h"
#include "kinema/media/image.h"

namespace kinema::cli {
namespace {

constexpr int kAxis = 11;  // columns for the axis labels on the left

/// A character of the Unicode braille block: 2 x 4 dots, one bit each.
class Dots {
 public:
  Dots(int columns, int rows)
      : columns_(columns),
        cells_(static_cast<size_t>(columns) * static_cast<size_t>(rows), uint8_t{0}) {}

  void set(int x, int y) {
    constexpr uint8_t kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    cells_[static_cast<size_t>(y / 4 * columns_ + x / 2)] |= kBits[y % 4][x % 2];
  }

  std::string line(int row) const {
    std::string out;
    for (int column = 0; column < columns_; ++column) {
      const uint8_t bits = cells_[static_cast<size_t>(row * columns_ + column)];
      out += {'\xe2', static_cast<char>(0xa0 | bits >> 6), static_cast<char>(0x80 | (bits & 0x3f))};
    }
    return out;
  }

 private:
  int columns_;
  std::vector<uint8_t> cells_;
};

std::vector<double> finite(std::span<const double> values) {
  std::vector<double> out;
  std::ranges::copy_if(values, std::back_inserter(out), [](double x) { return std::isfinite(x); });
  return out;
}

/// The values resampled to `columns`: means of several, or repeated values.
std::vector<double> resampled(const std::vector<double>& values, int columns) {
  const auto n = static_cast<int64_t>(values.size());
  std::vector<double> out;
  for (int64_t x = 0; x < columns; ++x) {
    const int64_t first = x * n / columns;
    const int64_t last = std::max(first + 1, (x + 1) * n / columns);
    double sum = 0;
    for (int64_t i = first; i < last; ++i) {
      sum += values[static_cast<size_t>(i)];
    }
    out.push_back(sum / static_cast<double>(last - first));
  }
  return out;
}

}  // namespace

TerminalSize terminal_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    return {size.ws_col, size.ws_row};
  }
  return {};
}

std::vector<std::string> curve_lines(std::span<const double> values, int columns, int rows,
                                     std::optional<std::pair<double, double>> range) {
  const std::vector<double> given = finite(values);
  const int width = columns - kAxis;
  if (given.empty() || width < 1 || rows < 1) {
    return {};
  }
  const std::vector<double> curve = resampled(given, 2 * width);
  const auto own = std::ranges::minmax(curve);
  const auto [low, high] = range.value_or(std::pair(own.min, own.max));
  const double height = high > low ? high - low : 1.0;
  const auto dot = [&, low = low](double value) {
    return static_cast<int>(std::lround((1.0 - (value - low) / height) * (4 * rows - 1)));
  };
  Dots dots(width, rows);
  int last = dot(curve[0]);
  for (int x = 0; x < 2 * width; ++x) {
    const int y = dot(curve[static_cast<size_t>(x)]);
    for (int between = std::min(y, last); between <= std::max(y, last); ++between) {
      dots.set(x, between);
    }
    last = y;
  }
  std::vector<std::string> lines;
  for (int row = 0; row < rows; ++row) {
    const std::string number = row == 0          ? fmt::format("{:.4g}", high)
                               : row == rows - 1 ? fmt::format("{:.4g}", low)
                                                 : "";
    lines.push_back(fmt::format("{:>{}} ", number, kAxis - 1) + dots.line(row));
  }
  return lines;
}

std::vector<std::string> picture_lines(const HostArray& image, int columns, int rows) {
  check(image.shape.rank() == 3 && image.shape.dims[2] == 3 && image.shape.dtype == DType::U8,
        "[watch] {} is not a picture", to_string(image.shape));
  const double scale = std::min({1.0, columns / static_cast<double>(image.shape.dims[1]),
                                 2.0 * rows / static_cast<double>(image.shape.dims[0])});
  const auto scaled = [&](int64_t size) {
    return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(size) * scale));
  };
  const int64_t width = scaled(image.shape.dims[1]);
  const int64_t height = std::max<int64_t>(2, scaled(image.shape.dims[0]) / 2 * 2);
  const HostArray small = media::resize_image(image, height, width);
  const std::span<const uint8_t> bytes = small.as<uint8_t>();
  const auto colour = [&](int64_t y, int64_t x) {
    const auto* p = &bytes[static_cast<size_t>((y * width + x) * 3)];
    return fmt::format("{};{};{}", p[0], p[1], p[2]);
  };
  std::vector<std::string> lines;
  for (int64_t y = 0; y < height; y += 2) {
    std::string line;
    for (int64_t x = 0; x < width; ++x) {
      line += fmt::format("\x1b[38;2;{}m\x1b[48;2;{}m\u2580", colour(y, x), colour(y + 1, x));
    }
    lines.push_back(line + "\x1b[0m");
  }
  return lines;
}

}  // namespace kinema::cli
