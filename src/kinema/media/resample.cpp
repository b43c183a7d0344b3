#include "kinema/media/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::media {
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

double sinc(double x) {
  return x == 0 ? 1.0 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

double lanczos(double x) { return std::abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0; }

struct Kernel {
  double (*weight)(double);
  double support;  // zero beyond it
};

Kernel kernel_of(Filter filter) {
  switch (filter) {
    case Filter::Bilinear:
      return {bilinear, 1};
    case Filter::Bicubic:
      return {bicubic, 2};
    case Filter::Lanczos:
      return {lanczos, 3};
  }
  fail("[resample] unknown filter {}", static_cast<int>(filter));
}

template <typename Weight>
struct Taps {
  int64_t first = 0;
  std::vector<Weight> weights;
};

// For each output position, the input positions and weights of its average.
std::vector<Taps<double>> make_taps(int64_t from, int64_t to, Filter filter) {
  const Kernel kernel = kernel_of(filter);
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0);
  const double support = kernel.support * stretch;
  std::vector<Taps<double>> taps(static_cast<size_t>(to));
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first =
        std::max<int64_t>(0, static_cast<int64_t>(std::floor(centre - support + 0.5)));
    const auto last =
        std::min<int64_t>(from, static_cast<int64_t>(std::floor(centre + support + 0.5)));
    Taps<double>& tap = taps[static_cast<size_t>(i)];
    tap.first = first;
    double sum = 0;
    for (int64_t k = first; k < last; ++k) {
      tap.weights.push_back(kernel.weight((static_cast<double>(k) - centre + 0.5) / stretch));
      sum += tap.weights.back();
    }
    for (double& w : tap.weights) {
      w = sum == 0 ? w : w / sum;
    }
  }
  return taps;
}

/// Weights in fixed point, with so many binary places.
struct FixedTaps {
  std::vector<Taps<int32_t>> taps;
  int bits = 22;  // the sum of a row of weights times 255 stays inside 32 bits

  int32_t half() const { return 1 << (bits - 1); }
  uint8_t to_byte(int32_t sum) const {
    return static_cast<uint8_t>(std::clamp(sum >> bits, 0, 255));
  }
};

FixedTaps fixed_taps(int64_t from, int64_t to, Filter filter, Rounding rounding) {
  const std::vector<Taps<double>> exact = make_taps(from, to, filter);
  FixedTaps out;
  if (rounding == Rounding::TORCH) {
    double largest = 0;
    for (const Taps<double>& tap : exact) {
      largest = std::max(largest, tap.weights.empty() ? 0.0 : std::ranges::max(tap.weights));
    }
    // As many places as leave the largest weight in 16 bits with a sign.
    constexpr double kLimit = 1 << 15;
    for (out.bits = 0; out.bits < 22 && std::floor(0.5 + largest * (2 << out.bits)) < kLimit;) {
      ++out.bits;
    }
  }
  for (const Taps<double>& tap : exact) {
    Taps<int32_t>& fixed = out.taps.emplace_back(Taps<int32_t>{.first = tap.first, .weights = {}});
    for (const double w : tap.weights) {
      fixed.weights.push_back(static_cast<int32_t>(std::lround(w * (1 << out.bits))));
    }
  }
  return out;
}

void check_sizes(size_t in, size_t out, int64_t height, int64_t width, int64_t channels,
                 int64_t to_height, int64_t to_width) {
  check(height > 0 && width > 0 && channels > 0 && to_height > 0 && to_width > 0 &&
            static_cast<int64_t>(in) == height * width * channels &&
            static_cast<int64_t>(out) == to_height * to_width * channels,
        "[resample] sizes {}x{} to {}x{} do not match the arrays", height, width, to_height,
        to_width);
}

// Rows of `width` pixels to rows of `to_width`.
std::vector<uint8_t> scale_across(std::span<const uint8_t> in, int64_t height, int64_t width,
                                  int64_t channels, int64_t to_width, Filter filter,
                                  Rounding rounding) {
  const FixedTaps across = fixed_taps(width, to_width, filter, rounding);
  std::vector<uint8_t> out(static_cast<size_t>(height * to_width * channels));
  std::vector<int32_t> sums(static_cast<size_t>(channels));
  auto to = out.begin();
  for (int64_t y = 0; y < height; ++y) {
    for (const Taps<int32_t>& tap : across.taps) {
      std::ranges::fill(sums, across.half());
      const uint8_t* from = &in[static_cast<size_t>((y * width + tap.first) * channels)];
      for (const int32_t w : tap.weights) {
        for (int32_t& sum : sums) {
          sum += w * *from++;
        }
      }
      to = std::ranges::transform(sums, to, [&](int32_t sum) { return across.to_byte(sum); }).out;
    }
  }
  return out;
}

// Columns of `height` pixels to columns of out's height; `row` bytes per row.
void scale_down(std::span<const uint8_t> in, int64_t height, int64_t row, std::span<uint8_t> out,
                int64_t to_height, Filter filter, Rounding rounding) {
  const FixedTaps down = fixed_taps(height, to_height, filter, rounding);
  std::vector<int32_t> sums(static_cast<size_t>(row));
  auto to = out.begin();
  for (const Taps<int32_t>& tap : down.taps) {
    std::ranges::fill(sums, down.half());
    const uint8_t* from = &in[static_cast<size_t>(tap.first * row)];
    for (const int32_t w : tap.weights) {
      for (int32_t& sum : sums) {
        sum += w * *from++;
      }
    }
    to = std::ranges::transform(sums, to, [&](int32_t sum) { return down.to_byte(sum); }).out;
  }
}

}  // namespace

void resample(std::span<const float> in, int64_t height, int64_t width, int64_t channels,
              std::span<float> out, int64_t to_height, int64_t to_width, Filter filter) {
  check_sizes(in.size(), out.size(), height, width, channels, to_height, to_width);
  const auto across = make_taps(width, to_width, filter);
  const auto down = make_taps(height, to_height, filter);
  std::vector<float> middle(static_cast<size_t>(height * to_width * channels), 0.0F);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < to_width; ++x) {
      const Taps<double>& tap = across[static_cast<size_t>(x)];
      float* to = &middle[static_cast<size_t>((y * to_width + x) * channels)];
      const float* from = &in[static_cast<size_t>((y * width + tap.first) * channels)];
      for (const double exact : tap.weights) {
        const auto w = static_cast<float>(exact);
        for (int64_t c = 0; c < channels; ++c) {
          to[c] += w * *from++;
        }
      }
    }
  }
  const int64_t row = to_width * channels;
  std::ranges::fill(out, 0.0F);
  for (int64_t y = 0; y < to_height; ++y) {
    const Taps<double>& tap = down[static_cast<size_t>(y)];
    float* to = &out[static_cast<size_t>(y * row)];
    for (size_t k = 0; k < tap.weights.size(); ++k) {
      const float* from = &middle[static_cast<size_t>((tap.first + static_cast<int64_t>(k)) * row)];
      const auto w = static_cast<float>(tap.weights[k]);
      for (int64_t i = 0; i < row; ++i) {
        to[i] += w * from[i];
      }
    }
  }
}

void resample(std::span<const uint8_t> in, int64_t height, int64_t width, int64_t channels,
              std::span<uint8_t> out, int64_t to_height, int64_t to_width, Filter filter,
              Rounding rounding) {
  check_sizes(in.size(), out.size(), height, width, channels, to_height, to_width);
  std::vector<uint8_t> middle;
  // The order of the passes matters, because the intermediate result is rounded. PIL (since 13)
  // reduces rows first if it removes more than twice as many rows as columns, as its output shows.
  if (rounding == Rounding::PIL &&
      height - to_height > 2 * std::max<int64_t>(0, width - to_width) && to_width != width) {
    middle.resize(static_cast<size_t>(to_height * width * channels));
    scale_down(in, height, width * channels, middle, to_height, filter, rounding);
    std::ranges::copy(scale_across(middle, to_height, width, channels, to_width, filter, rounding),
                      out.begin());
    return;
  }
  if (to_width != width) {
    middle = scale_across(in, height, width, channels, to_width, filter, rounding);
    in = middle;
  }
  if (to_height != height) {
    scale_down(in, height, to_width * channels, out, to_height, filter, rounding);
  } else {
    std::ranges::copy(in, out.begin());
  }
}

}  // namespace kinema::media
