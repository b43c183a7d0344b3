#include "kinema/kernels/cpu/kernel_gradient.h"

#include <algorithm>
#include <cstring>

#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/float_loops.h"
#include "kinema/kernels/cpu/rounding.h"
#include "kinema/kernels/cpu/winograd.h"

namespace kinema::kernels {
namespace {

using Axes = ConvolutionPlan::Axes;

constexpr int64_t kMostTaps = 27;
constexpr int64_t kFewest = 32;  // channels

int64_t volume(const Axes& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

class TapProducts {
 public:
  TapProducts(const ConvolutionPlan& plan, DType dtype)
      : p_(plan), dtype_(dtype), bytes_(byte_size(dtype)) {
    for (size_t i = 0; i < 3; ++i) {
      pitch_[i] = p_.y[i] + p_.w[i] - 1;
    }
    depth_ = p_.in * volume(pitch_);
    // The last taps reach past the last image, where w is padded with zeros.
    reach_ = depth_ + (p_.y[0] * pitch_[1] + p_.y[1]) * pitch_[2] + p_.y[2];
  }

  void run(const char* x, const char* w, char* y, const ParallelFor& parallel_for) {
    constexpr int64_t kRows = 128;  // of x's channels, per task
    const int64_t taps = volume(p_.y);
    const int64_t blocks = ceil_div(p_.batch, kRows);
    Buffer x_buffer, w_buffer, sums_buffer;
    char* images = x_buffer.at_least(static_cast<size_t>(p_.batch * reach_ * bytes_));
    char* kernels = w_buffer.at_least(static_cast<size_t>(p_.out * depth_ * bytes_));
    float* sums = sums_buffer.floats(taps * p_.batch * p_.out);
    parallel_for(p_.batch, [&](int64_t channel) {
      spread(x, p_.x, channel, p_.low, images + channel * reach_ * bytes_, reach_);
    });
    parallel_for(p_.out, [&](int64_t channel) {
      spread(w, p_.w, channel, {}, kernels + channel * depth_ * bytes_, depth_);
    });
    parallel_for(taps * blocks, [&](int64_t piece) {
      const int64_t tap = piece / blocks;
      const int64_t first = piece % blocks * kRows;
      multiply_single_threaded(
          {std::min(kRows, p_.batch - first), p_.out, depth_, reach_, 1, 1, depth_, p_.out, 1, {}},
          dtype_, DType::F32, images + (first * reach_ + offset(tap)) * bytes_, kernels,
          reinterpret_cast<char*>(sums + (tap * p_.batch + first) * p_.out));
    });
    parallel_for(p_.batch, [&](int64_t channel) {
      Buffer buffer;
      float* together = buffer.floats(p_.out * taps);
      for (int64_t tap = 0; tap < taps; ++tap) {
        const float* from = sums + (tap * p_.batch + channel) * p_.out;
        for (int64_t out = 0; out < p_.out; ++out) {
          together[out * taps + tap] = from[out];
        }
      }
      write_floats(dtype_, together, p_.out * taps, y, channel * p_.out * taps);
    });
  }

 private:
  /// Distance in memory between a tap's operand and that of the first tap.
  int64_t offset(int64_t tap) const {
    const int64_t plane = p_.y[1] * p_.y[2];
    return (tap / plane * pitch_[1] + tap / p_.y[2] % p_.y[1]) * pitch_[2] + tap % p_.y[2];
  }

  /// Copies the images of a channel at the distances of pitch_, with `low` zeros before each axis
  /// (cropped if negative) and zeros after it; `size` elements.
  void spread(const char* from, const Axes& sizes, int64_t channel, const Axes& low, char* to,
              int64_t size) const {
    std::memset(to, 0, static_cast<size_t>(size * bytes_));
    const int64_t left = std::max<int64_t>(0, -low[2]);
    const int64_t count = std::min(sizes[2], pitch_[2] - low[2]) - left;
    if (count <= 0) {
      return;
    }
    for (int64_t image = 0; image < p_.in; ++image) {
      for (int64_t frame = 0; frame < sizes[0]; ++frame) {
        for (int64_t row = 0; row < sizes[1]; ++row) {
          const int64_t at_frame = frame + low[0];
          const int64_t at_row = row + low[1];
          if (at_frame < 0 || at_frame >= pitch_[0] || at_row < 0 || at_row >= pitch_[1]) {
            continue;
          }
          const int64_t source =
              ((channel * p_.in + image) * sizes[0] + frame) * sizes[1] * sizes[2] +
              row * sizes[2] + left;
          const int64_t target =
              ((image * pitch_[0] + at_frame) * pitch_[1] + at_row) * pitch_[2] + low[2] + left;
          std::memcpy(to + target * bytes_, from + source * bytes_,
                      static_cast<size_t>(count * bytes_));
        }
      }
    }
  }

  const ConvolutionPlan& p_;
  const DType dtype_;
  const int64_t bytes_;
  Axes pitch_{};
  int64_t depth_ = 0, reach_ = 0;  // padded elements per channel of w and of x
};

}  // namespace

bool is_kernel_gradient(const ConvolutionPlan& plan) {
  constexpr Axes kOnes{1, 1, 1};
  return volume(plan.w) > kLargestKernel && volume(plan.y) <= kMostTaps && plan.groups == 1 &&
         plan.stride == kOnes && plan.dilation == kOnes &&
         std::min(plan.batch, plan.out) >= kFewest;
}

void kernel_gradient(const ConvolutionPlan& plan, DType dtype, const void* x, const void* w,
                     void* y, const ParallelFor& parallel_for) {
  if (is_winograd_kernel_gradient(plan, dtype)) {
    winograd_kernel_gradient(plan, dtype, x, w, y, parallel_for);
    return;
  }
  TapProducts(plan, dtype)
      .run(static_cast<const char*>(x), static_cast<const char*>(w), static_cast<char*>(y),
           parallel_for);
}

}  // namespace kinema::kernels
