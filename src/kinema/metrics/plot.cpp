#include "kinema/metrics/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace kinema::metrics {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 400;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 36;
constexpr double kBottom = 44;

/// A linear map from values to pixels.
struct Scale {
  double low, high;  // values
  double from, to;   // pixels

  double operator()(double value) const {
    return from + (value - low) / (high - low) * (to - from);
  }
};

/// The largest of 1, 2, 5 times a power of ten that divides a range into at least four parts.
double round_step(double range) {
  const double power = std::pow(10.0, std::floor(std::log10(range)));
  for (const double factor : {2.0, 1.0, 0.5, 0.2}) {
    if (range / (factor * power) >= 4.0) {
      return factor * power;
    }
  }
  return 0.1 * power;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

/// The smallest range of all values; 0 to 1 if there are none.
std::pair<double, double> range_of(const Plot& plot, std::vector<double> PlotLine::*which) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const PlotLine& line : plot.lines) {
    for (const double value : line.*which) {
      if (std::isfinite(value)) {
        low = std::min(low, value);
        high = std::max(high, value);
      }
    }
  }
  return low <= high ? std::pair(low, high) : std::pair(0.0, 1.0);
}

std::string polyline(const PlotLine& line, const Scale& x, const Scale& y) {
  // More points than pixels only make the file larger.
  const size_t stride = std::max<size_t>(1, line.xs.size() / 2000);
  std::string points;
  for (size_t i = 0; i < line.xs.size(); i += stride) {
    if (std::isfinite(line.ys[i])) {
      points +=
          fmt::format("{:.1f},{:.1f} ", x(line.xs[i]), y(std::clamp(line.ys[i], y.low, y.high)));
    }
  }
  return fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" points=\"{}\"/>\n",
                     line.colour, line.width, points);
}

/// The multiples of a round step in a range.
std::vector<double> ticks(const Scale& scale) {
  const double step = round_step(scale.high - scale.low);
  const double first = std::ceil(scale.low / step);
  std::vector<double> out;
  for (int i = 0; i <= 10 && (first + i) * step <= scale.high; ++i) {
    out.push_back((first + i) * step);
  }
  return out;
}

std::string axes(const Scale& x, const Scale& y) {
  std::string out;
  for (const double v : ticks(x)) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.6g}</text>\n",
                       x(v), kHeight - kBottom + 18, v);
  }
  for (const double v : ticks(y)) {
    out += fmt::format(
        "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.4g}</text>\n",
        kLeft, kWidth - kRight, y(v), y(v), kLeft - 8, y(v) + 4, v);
  }
  return out;
}

std::string legend(const Plot& plot) {
  std::string out;
  double y = kTop + 14;
  for (const PlotLine& line : plot.lines) {
    if (!line.label.empty()) {
      out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"{}\">{}</text>\n",
                         kWidth - kRight - 6, y, line.colour, escaped(line.label));
      y += 16;
    }
  }
  return out;
}

/// One plot with its axes.
std::string panel(const Plot& plot) {
  const auto [first, last] = range_of(plot, &PlotLine::xs);
  auto [low, high] = range_of(plot, &PlotLine::ys);
  low = plot.from_zero ? std::min(0.0, low) : low;
  high = plot.top.value_or(high);
  const Scale x{first, std::max(last, first + 1.0), kLeft, kWidth - kRight};
  // A constant curve gets space above it; rounding differences are not a range.
  const bool has_range = high - low > 1e-9 * std::max(std::abs(high), std::abs(low));
  const double room = std::abs(low) > 0 ? std::abs(low) : 1.0;
  const Scale y{low, has_range ? high + 0.05 * (high - low) : low + room, kHeight - kBottom, kTop};
  std::string out = fmt::format(
      "<text x=\"{}\" y=\"22\" font-size=\"14\">{}</text>\n"
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>\n",
      kLeft, escaped(plot.title), (kLeft + kWidth - kRight) / 2, kHeight - 8);
  out += axes(x, y);
  for (const PlotLine& line : plot.lines) {
    out += polyline(line, x, y);
  }
  return out + legend(plot);
}

}  // namespace

const char* plot_colour(size_t i) {
  constexpr std::array kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                "#e69f00", "#56b4e9", "#000000"};
  return kColours.at(i % kColours.size());
}

std::string svg(std::span<const Plot> plots, int columns) {
  const auto count = static_cast<int>(plots.size());
  const int across = std::clamp(columns, 1, std::max(count, 1));
  const int down = (count + across - 1) / across;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth * across, kHeight * down);
  for (int i = 0; i < count; ++i) {
    out += fmt::format("<g transform=\"translate({} {})\">\n{}</g>\n", kWidth * (i % across),
                       kHeight * (i / across), panel(plots[static_cast<size_t>(i)]));
  }
  return out + "</svg>\n";
}

}  // namespace kinema::metrics
