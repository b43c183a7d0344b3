#include "io/resample.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"

namespace kinema::io {
namespace {

double bilinear(double x) { return std::max(0.0, 1 - std::abs(x)); }

// Keys' cubic convolution with a = -0.5 (IEEE Trans. ASSP 29(6), 1981, eq. 15).
double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) {
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  }
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

struct Taps {
  int64_t first = 0;
  std::vector<float> weights;
};

// For each output position, the input positions that it averages.
std::vector<Taps> make_taps(int64_t from, int64_t to, Filter filter) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0);
  const double support = (filter == Filter::Bilinear ? 1.0 : 2.0) * stretch;
  std::vector<Taps> taps(static_cast<size_t>(to));
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(centre - support + 0.5));
    const auto last = std::min<int64_t>(from, static_cast<int64_t>(centre + support + 0.5));
    Taps& tap = taps[static_cast<size_t>(i)];
    tap.first = first;
    double sum = 0;
    std::vector<double> weights;
    for (int64_t k = first; k < last; ++k) {
      const double x = (static_cast<double>(k) - centre + 0.5) / stretch;
      weights.push_back(filter == Filter::Bilinear ? bilinear(x) : bicubic(x));
      sum += weights.back();
    }
    for (const double w : weights) {
      tap.weights.push_back(static_cast<float>(w / sum));
    }
  }
  return taps;
}

}  // namespace

void resample(std::span<const float> in, int64_t height, int64_t width, int64_t channels,
              std::span<float> out, int64_t to_height, int64_t to_width, Filter filter) {
  check(height > 0 && width > 0 && channels > 0 && to_height > 0 && to_width > 0 &&
            static_cast<int64_t>(in.size()) == height * width * channels &&
            static_cast<int64_t>(out.size()) == to_height * to_width * channels,
        "[resample] sizes {}x{} to {}x{} do not match the arrays", height, width, to_height,
        to_width);
  const std::vector<Taps> across = make_taps(width, to_width, filter);
  const std::vector<Taps> down = make_taps(height, to_height, filter);
  std::vector<float> middle(static_cast<size_t>(height * to_width * channels), 0.0F);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < to_width; ++x) {
      const Taps& tap = across[static_cast<size_t>(x)];
      float* to = &middle[static_cast<size_t>((y * to_width + x) * channels)];
      const float* from = &in[static_cast<size_t>((y * width + tap.first) * channels)];
      for (const float w : tap.weights) {
        for (int64_t c = 0; c < channels; ++c) {
          to[c] += w * *from++;
        }
      }
    }
  }
  const int64_t row = to_width * channels;
  std::ranges::fill(out, 0.0F);
  for (int64_t y = 0; y < to_height; ++y) {
    const Taps& tap = down[static_cast<size_t>(y)];
    float* to = &out[static_cast<size_t>(y * row)];
    for (size_t k = 0; k < tap.weights.size(); ++k) {
      const float* from = &middle[static_cast<size_t>((tap.first + static_cast<int64_t>(k)) * row)];
      for (int64_t i = 0; i < row; ++i) {
        to[i] += tap.weights[k] * from[i];
      }
    }
  }
}

}  // namespace kinema::io
