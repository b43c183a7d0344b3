#include "kinema/media/blur.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>

namespace kinema::media {
namespace {

/// A Gaussian's weights, to the distance of 2.5 standard deviations.
std::vector<float> gaussian(double deviation) {
  const auto reach = static_cast<int64_t>(2.5 * deviation + 0.5);
  std::vector<float> out;
  double sum = 0.0;
  for (int64_t i = -reach; i <= reach; ++i) {
    const double at = static_cast<double>(i) / deviation;
    out.push_back(static_cast<float>(std::exp(-0.5 * at * at)));
    sum += out.back();
  }
  for (float& weight : out) {
    weight /= static_cast<float>(sum);
  }
  return out;
}

/// A position beyond the edges of `size` values, mirrored at the outermost ones, as OpenCV's
/// default border (BORDER_REFLECT_101).
int64_t mirrored(int64_t at, int64_t size) {
  const int64_t period = std::max<int64_t>(2 * (size - 1), 1);
  at = std::abs(at) % period;
  return std::min(at, period - at) % size;
}

/// Rows of [height, width] values convolved with `weights`, transposed: [width, height].
std::vector<float> blurred_rows(std::span<const float> values, int64_t height, int64_t width,
                                std::span<const float> weights) {
  std::vector<float> out(values.size());
  const auto reach = std::ssize(weights) / 2;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      float sum = 0.0F;
      for (int64_t k = -reach; k <= reach; ++k) {
        const int64_t at = mirrored(x + k, width);
        sum += weights[static_cast<size_t>(k + reach)] * values[y * width + at];
      }
      out[x * height + y] = sum;
    }
  }
  return out;
}

}  // namespace

std::vector<float> gaussian_blur(std::span<const float> values, int64_t height, int64_t width,
                                 double deviation) {
  const std::vector<float> weights = gaussian(deviation);
  return blurred_rows(blurred_rows(values, height, width, weights), width, height, weights);
}

}  // namespace kinema::media
