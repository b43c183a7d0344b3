// The picture of a loss curve: raw points pale, their running mean strong, axes with round numbers.
#include <algorithm>
#include <cmath>

#include "kinema/io/atomic_write.h"
#include "kinema/training/metrics.h"

namespace kinema::training {

namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 400;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 36;
constexpr double kBottom = 44;

/// A range of values and where it lies on the picture.
struct Scale {
  double low, high;  // values
  double from, to;   // pixels

  double operator()(double value) const {
    return from + (value - low) / (high - low) * (to - from);
  }
};

/// Largest of 1, 2, 5 times a power of ten that cuts a range into at least four parts.
double round_step(double range) {
  const double power = std::pow(10.0, std::floor(std::log10(range)));
  for (const double factor : {2.0, 1.0, 0.5, 0.2}) {
    if (range / (factor * power) >= 4.0) {
      return factor * power;
    }
  }
  return 0.1 * power;
}

std::string polyline(const std::vector<double>& xs, const std::vector<double>& ys, const Scale& x,
                     const Scale& y, const char* style) {
  // More points than pixels would only make the file large.
  const size_t stride = std::max<size_t>(1, xs.size() / 2000);
  std::string points;
  for (size_t i = 0; i < xs.size(); i += stride) {
    points += fmt::format("{:.1f},{:.1f} ", x(xs[i]), y(std::clamp(ys[i], y.low, y.high)));
  }
  return fmt::format("<polyline fill=\"none\" {} points=\"{}\"/>\n", style, points);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

std::string axes(const Scale& x, const Scale& y) {
  std::string out;
  const double dx = round_step(x.high - x.low);
  for (double v = std::ceil(x.low / dx) * dx; v <= x.high; v += dx) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.6g}</text>\n",
                       x(v), kHeight - kBottom + 18, v);
  }
  const double dy = round_step(y.high - y.low);
  for (double v = std::ceil(y.low / dy) * dy; v <= y.high; v += dy) {
    out += fmt::format(
        "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.4g}</text>\n",
        kLeft, kWidth - kRight, y(v), y(v), kLeft - 8, y(v) + 4, v);
  }
  return out;
}

}  // namespace

Smoothed smoothed(const std::vector<double>& values) {
  const auto n = static_cast<int64_t>(values.size());
  const int64_t half = n / 60;
  std::vector<double> sums{0.0};
  for (const double value : values) {
    sums.push_back(sums.back() + value);
  }
  Smoothed out{.values = {}, .width = 2 * half + 1};
  for (int64_t i = 0; i < n; ++i) {
    const auto low = static_cast<size_t>(std::max<int64_t>(0, i - half));
    const auto high = static_cast<size_t>(std::min(n, i + half + 1));
    out.values.push_back((sums[high] - sums[low]) / static_cast<double>(high - low));
  }
  return out;
}

void write_curve(const std::filesystem::path& path, const LossCurve& curve,
                 const std::string& title) {
  if (curve.steps.size() < 2) {
    return;
  }
  const std::vector<double> mean = smoothed(curve.losses).values;
  std::vector<double> sorted = curve.losses;
  std::sort(sorted.begin(), sorted.end());
  // A few wild first losses must not flatten the rest: the top one percent may leave the picture.
  const double top =
      std::max(sorted[(sorted.size() - 1) * 99 / 100], *std::max_element(mean.begin(), mean.end()));
  const double bottom = std::min(0.0, sorted.front());
  const Scale x{curve.steps.front(), std::max(curve.steps.back(), curve.steps.front() + 1.0), kLeft,
                kWidth - kRight};
  const Scale y{bottom, top > bottom ? top * 1.05 : bottom + 1.0, kHeight - kBottom, kTop};

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"22\" font-size=\"14\">{3}</text>\n"
      "<text x=\"{4}\" y=\"{5}\" text-anchor=\"middle\">step</text>\n",
      kWidth, kHeight, kLeft, escaped(title), (kLeft + kWidth - kRight) / 2, kHeight - 8);
  svg += axes(x, y);
  svg += polyline(curve.steps, curve.losses, x, y, "stroke=\"#9ecae1\" stroke-width=\"1\"");
  svg += polyline(curve.steps, mean, x, y, "stroke=\"#08519c\" stroke-width=\"2\"");
  io::write_file(path, svg + "</svg>\n");
}

}  // namespace kinema::training
