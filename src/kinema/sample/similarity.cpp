#include "kinema/sample/similarity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::sample {
namespace {

constexpr double kRange = 255;

/// Sums over the pairs of values in a window: x, y, x^2, y^2, xy.
enum Moment { X, Y, XX, YY, XY, kMoments };
/// One plane of numbers per moment, rows x columns.
using Planes = std::array<std::vector<int64_t>, kMoments>;

int64_t window_of(int64_t length) {
  constexpr int64_t kWindow = 7;
  return std::min(kWindow, length - (length % 2 == 0 ? 1 : 0));
}

void check_pair(const HostArray& a, const HostArray& b) {
  check(a.shape == b.shape && a.shape.dtype == DType::U8 && a.shape.rank() == 4 &&
            a.shape.elements() > 0,
        "[sample] videos of {} and {} cannot be compared: two of one u8 [f, h, w, c] were expected",
        to_string(a.shape), to_string(b.shape));
}

/// Sums over windows of `rows` x `columns` of one channel of a frame.
Planes window_sums(std::span<const uint8_t> a, std::span<const uint8_t> b, const Dims& dims,
                   int64_t rows, int64_t columns) {
  const int64_t height = dims[1];
  const int64_t width = dims[2];
  const int64_t channels = dims[3];
  const int64_t out_width = width - columns + 1;
  const int64_t out_height = height - rows + 1;
  Planes out;
  for (std::vector<int64_t>& plane : out) {
    plane.assign(static_cast<size_t>(out_height * out_width), 0);
  }
  std::array<std::vector<int64_t>, kMoments> column_sums;  // over `rows` rows
  for (std::vector<int64_t>& sums : column_sums) {
    sums.assign(static_cast<size_t>(width), 0);
  }
  const auto add_row = [&](int64_t y, int64_t sign) {
    for (int64_t x = 0; x < width; ++x) {
      const auto at = static_cast<size_t>((y * width + x) * channels);
      const int64_t p = a[at];
      const int64_t q = b[at];
      const auto to = static_cast<size_t>(x);
      column_sums[X][to] += sign * p;
      column_sums[Y][to] += sign * q;
      column_sums[XX][to] += sign * p * p;
      column_sums[YY][to] += sign * q * q;
      column_sums[XY][to] += sign * p * q;
    }
  };
  for (int64_t y = 0; y < height; ++y) {
    add_row(y, 1);
    if (y >= rows) {
      add_row(y - rows, -1);
    }
    if (y < rows - 1) {
      continue;
    }
    for (int m = 0; m < kMoments; ++m) {
      int64_t sum = 0;
      int64_t* to = out[m].data() + (y - rows + 1) * out_width;
      for (int64_t x = 0; x < width; ++x) {
        sum += column_sums[m][static_cast<size_t>(x)];
        if (x >= columns) {
          sum -= column_sums[m][static_cast<size_t>(x - columns)];
        }
        if (x >= columns - 1) {
          to[x - columns + 1] = sum;
        }
      }
    }
  }
  return out;
}

/// The similarity of the window with these sums over n pairs.
double similarity(double x, double y, double xx, double yy, double xy, double n) {
  constexpr double kC1 = (0.01 * kRange) * (0.01 * kRange);
  constexpr double kC2 = (0.03 * kRange) * (0.03 * kRange);
  const double unbiased = n > 1 ? n / (n - 1) : 0;
  const double mx = x / n;
  const double my = y / n;
  const double vx = unbiased * (xx / n - mx * mx);
  const double vy = unbiased * (yy / n - my * my);
  const double vxy = unbiased * (xy / n - mx * my);
  return (2 * mx * my + kC1) * (2 * vxy + kC2) / ((mx * mx + my * my + kC1) * (vx + vy + kC2));
}

}  // namespace

double structural_similarity(const HostArray& a, const HostArray& b) {
  check_pair(a, b);
  const Dims& dims = a.shape.dims;
  const int64_t frames = window_of(dims[0]);
  const int64_t rows = window_of(dims[1]);
  const int64_t columns = window_of(dims[2]);
  const auto n = static_cast<double>(frames * rows * columns);
  const auto frame_size = static_cast<size_t>(dims[1] * dims[2] * dims[3]);
  double total = 0;
  int64_t windows = 0;
  for (int64_t channel = 0; channel < dims[3]; ++channel) {
    // Sums over the last `frames` frames, and each frame's, which is subtracted later.
    std::vector<Planes> last(static_cast<size_t>(frames));
    Planes sums;
    for (int64_t f = 0; f < dims[0]; ++f) {
      const auto from = static_cast<size_t>(f) * frame_size + static_cast<size_t>(channel);
      Planes now = window_sums(a.as<uint8_t>().subspan(from), b.as<uint8_t>().subspan(from), dims,
                               rows, columns);
      Planes& oldest = last[static_cast<size_t>(f % frames)];
      for (int m = 0; m < kMoments; ++m) {
        sums[m].resize(now[m].size());
        for (size_t i = 0; i < now[m].size(); ++i) {
          sums[m][i] += now[m][i] - (oldest[m].empty() ? 0 : oldest[m][i]);
        }
      }
      oldest = std::move(now);
      if (f < frames - 1) {
        continue;
      }
      for (size_t i = 0; i < sums[X].size(); ++i) {
        const auto at = [&](Moment m) { return static_cast<double>(sums[m][i]); };
        total += similarity(at(X), at(Y), at(XX), at(YY), at(XY), n);
      }
      windows += static_cast<int64_t>(sums[X].size());
    }
  }
  return total / static_cast<double>(windows);
}

double peak_signal_to_noise(const HostArray& a, const HostArray& b) {
  check_pair(a, b);
  const std::span<const uint8_t> p = a.as<uint8_t>();
  const std::span<const uint8_t> q = b.as<uint8_t>();
  int64_t sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const int64_t difference = static_cast<int64_t>(p[i]) - q[i];
    sum += difference * difference;
  }
  if (sum == 0) {
    return std::numeric_limits<double>::infinity();
  }
  return 10 *
         std::log10(kRange * kRange * static_cast<double>(p.size()) / static_cast<double>(sum));
}

}  // namespace kinema::sample
