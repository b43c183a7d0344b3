#include "kinema/kernels/cpu/group_norm.h"

#include <algorithm>
#include <cmath>

#include "kinema/kernels/cpu/exponential.h"
#include "kinema/kernels/cpu/float_loops.h"
#include "kinema/kernels/cpu/vector_loop.h"

namespace kinema::kernels {
namespace {

struct Activate {
  [[gnu::always_inline]] static void run(float* x, int64_t n, float mean, float scale,
                                         float shift) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const float y = (x[i] - mean) * scale + shift;
      const float e = exponential(y < 0.0F ? y : -y);
      x[i] = y * (y < 0.0F ? e : 1.0F) / (1.0F + e);
    }
  }
};

struct Sum {
  [[gnu::always_inline]] static float run(const float* x, int64_t n) {
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) {
      sum += x[i];
    }
    return sum;
  }
};

struct SumOfSquares {
  [[gnu::always_inline]] static float run(const float* x, int64_t n, float mean) {
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) {
      sum += (x[i] - mean) * (x[i] - mean);
    }
    return sum;
  }
};

/// Mean and sum of squared deviations.
struct Moments {
  double count = 0, mean = 0, squares = 0;

  /// Combines both (T. Chan, G. Golub and R. LeVeque, 1979).
  void add(const Moments& other) {
    const double all = count + other.count;
    const double apart = other.mean - mean;
    squares += other.squares + apart * apart * count * other.count / all;
    mean += apart * other.count / all;
    count = all;
  }
};

/// Of `n` contiguous elements from `at` on.
Moments moments(DType dtype, const char* x, int64_t at, int64_t n) {
  constexpr int64_t kChunk = 512;
  float wide[kChunk];
  Moments all;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t count = std::min(kChunk, n - begin);
    read_floats(dtype, x, at + begin, count, wide);
    const auto size = static_cast<double>(count);
    const float mean = vector_loop<Sum, const float*>(wide, count) / static_cast<float>(count);
    all.add({size, mean, vector_loop<SumOfSquares, const float*>(wide, count, mean)});
  }
  return all;
}

}  // namespace

std::vector<ActivatedChannel> activated_channels(const GroupNormPlan& p, DType dtype, const void* x,
                                                 const float* weight, const float* bias,
                                                 const ParallelFor& parallel_for) {
  const int64_t planes = p.batch * p.channels;
  std::vector<Moments> of_planes(static_cast<size_t>(planes));
  parallel_for(planes, [&](int64_t plane) {
    of_planes[static_cast<size_t>(plane)] =
        moments(dtype, static_cast<const char*>(x), plane * p.pixels, p.pixels);
  });
  const int64_t together = p.channels / p.groups;
  std::vector<ActivatedChannel> out(of_planes.size());
  for (int64_t first = 0; first < planes; first += together) {
    Moments group;
    for (int64_t plane = first; plane < first + together; ++plane) {
      group.add(of_planes[static_cast<size_t>(plane)]);
    }
    const double inverse = 1.0 / std::sqrt(group.squares / group.count + p.epsilon);
    for (int64_t plane = first; plane < first + together; ++plane) {
      const int64_t channel = plane % p.channels;
      out[static_cast<size_t>(plane)] = {.mean = static_cast<float>(group.mean),
                                         .scale = static_cast<float>(inverse * weight[channel]),
                                         .shift = bias[channel]};
    }
  }
  return out;
}

void activate(float* x, int64_t n, const ActivatedChannel& channel) {
  vector_loop<Activate>(x, n, channel.mean, channel.scale, channel.shift);
}

}  // namespace kinema::kernels
