// Draws a loss curve: raw points in a light colour, their running mean in a strong one.
#include <algorithm>

#include "kinema/io/atomic_write.h"
#include "kinema/metrics/metrics.h"
#include "kinema/metrics/plot.h"

namespace kinema::metrics {

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
  std::vector<double> mean = smoothed(curve.losses).values;
  std::vector<double> sorted = curve.losses;
  std::sort(sorted.begin(), sorted.end());
  // A few extreme first losses must not flatten the rest: the highest one percent may be outside
  // the picture.
  const double top =
      std::max(sorted[(sorted.size() - 1) * 99 / 100], *std::max_element(mean.begin(), mean.end()));
  const Plot plot{
      .title = title,
      .lines = {{.xs = curve.steps, .ys = curve.losses, .colour = "#9ecae1", .width = 1},
                {.xs = curve.steps, .ys = std::move(mean), .colour = "#08519c"}},
      .top = top};
  io::write_file(path, svg(std::span(&plot, 1)));
}

}  // namespace kinema::metrics
