#include <algorithm>

#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/panels.h"
#include "kinema/kernels/cpu/winograd.h"
#include "kinema/kernels/cpu/winograd_tiles.h"

namespace kinema::kernels {
namespace {

using Axes = ConvolutionPlan::Axes;

constexpr int64_t kTaps = 9;  // of a kernel: 3 x 3

/// A dy A^T of `tiles` adjacent tiles, from two lines of 2 tiles pixels.
struct CotangentPoints {
  [[gnu::always_inline]] static void run(const float* lines, int64_t tiles, float* points,
                                         int64_t step) {
    const float* first = lines;
    const float* second = lines + 2 * tiles;
#pragma omp simd
    for (int64_t t = 0; t < tiles; ++t) {
      const float a = first[2 * t], b = first[2 * t + 1];
      const float c = second[2 * t], d = second[2 * t + 1];
      const float rows[4][2] = {{a, b}, {a + c, b + d}, {a - c, b - d}, {-c, -d}};
#pragma GCC unroll 4
      for (int64_t row = 0; row < 4; ++row) {
        float* to = points + 4 * row * step + t;
        to[0] = rows[row][0];
        to[step] = rows[row][0] + rows[row][1];
        to[2 * step] = rows[row][0] - rows[row][1];
        to[3 * step] = -rows[row][1];
      }
    }
  }
};

/// G^T m G of `count` kernels, taps[tap count + i].
struct KernelTaps {
  [[gnu::always_inline]] static void run(const float* points, int64_t step, int64_t count,
                                         float* taps) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      float rows[4][3];
#pragma GCC unroll 4
      for (int64_t row = 0; row < 4; ++row) {
        const float* from = points + 4 * row * step + i;
        const float a = from[0];
        const float b = 0.5F * from[step];
        const float c = 0.5F * from[2 * step];
        const float d = from[3 * step];
        rows[row][0] = a + b + c;
        rows[row][1] = b - c;
        rows[row][2] = b + c + d;
      }
#pragma GCC unroll 3
      for (int64_t column = 0; column < 3; ++column) {
        const float b = 0.5F * rows[1][column];
        const float c = 0.5F * rows[2][column];
        taps[column * count + i] = rows[0][column] + b + c;
        taps[(3 + column) * count + i] = b - c;
        taps[(6 + column) * count + i] = b + c + rows[3][column];
      }
    }
  }
};

class KernelGradient {
 public:
  KernelGradient(const ConvolutionPlan& plan, DType dtype, const char* x, const char* w, char* y)
      : p_(plan), tiles_(plan.w[1], plan.w[2]), dtype_(dtype), x_(x), w_(w), y_(y) {
    constexpr int64_t kSums = int64_t{16} << 20;  // numbers: 64 MiB
    const int64_t fit = std::max(kRows, kSums / (kPoints * p_.out) / kRows * kRows);
    share_ = std::min(p_.batch, fit);
    out_ = round_up(p_.out, panel_.columns);
    together_ = std::min(tiles_.count(), kPanelDepth);
  }

  void run(const ParallelFor& parallel_for) {
    inputs_ =
        inputs_buffer_.floats(kPoints * round_up(share_, panel_.rows) * together_ + kPanelSpare);
    cotangents_ = cotangents_buffer_.floats(kPoints * out_ * together_ + kPanelSpare);
    sums_ = sums_buffer_.floats(kPoints * share_ * p_.out);
    for (int64_t first = 0; first < p_.batch; first += share_) {
      const int64_t channels = std::min(share_, p_.batch - first);
      for (int64_t image = 0; image < p_.in; ++image) {
        for (int64_t tile = 0; tile < tiles_.count(); tile += together_) {
          add({first, channels, image, tile, std::min(together_, tiles_.count() - tile)},
              image > 0 || tile > 0, parallel_for);
        }
      }
      parallel_for(channels, [&](int64_t channel) { write(first, channels, channel); });
    }
  }

 private:
  static constexpr int64_t kRows = 48;  // channels per task: a multiple of every panel

  struct Place {
    int64_t first, channels;  // of x
    int64_t image;
    int64_t tile, tiles;
  };

  /// Adds the products of some tiles of an image, at all points.
  void add(const Place& at, bool add, const ParallelFor& parallel_for) {
    parallel_for(ceil_div(at.channels, panel_.rows), [&](int64_t panel) { inputs(at, panel); });
    parallel_for(ceil_div(p_.out, panel_.columns), [&](int64_t panel) { cotangents(at, panel); });
    const int64_t blocks = ceil_div(at.channels, kRows);
    parallel_for(kPoints * blocks, [&](int64_t piece) {
      const int64_t point = piece / blocks;
      const int64_t channel = piece % blocks * kRows;
      multiply_panels(std::min(kRows, at.channels - channel), p_.out, at.tiles,
                      inputs_at(at, point) + channel * at.tiles, cotangents_at(at, point),
                      sums_ + (point * at.channels + channel) * p_.out, p_.out, add);
    });
  }

  float* inputs_at(const Place& at, int64_t point) const {
    return inputs_ + point * round_up(at.channels, panel_.rows) * at.tiles;
  }
  float* cotangents_at(const Place& at, int64_t point) const {
    return cotangents_ + point * out_ * at.tiles;
  }

  /// Transforms a panel of x's channels, at all points: [tiles, channels].
  void inputs(const Place& at, int64_t panel) const {
    const int64_t first = panel * panel_.rows;
    const int64_t count = std::min(panel_.rows, at.channels - first);
    as_panel(at, count, panel_.rows, inputs_at(at, 0) + first * at.tiles,
             inputs_at(at, 1) - inputs_at(at, 0), [&](int64_t i, float* points) {
               input_points(
                   {dtype_, x_, start(p_.x, at.first + first + i, at.image), p_.x[1], p_.x[2]},
                   tiles_, -p_.low[1], -p_.low[2], at.tile, at.tile + at.tiles, points, at.tiles);
             });
  }

  /// The same for the result's cotangents.
  void cotangents(const Place& at, int64_t panel) const {
    const int64_t first = panel * panel_.columns;
    const int64_t count = std::min(panel_.columns, p_.out - first);
    as_panel(at, count, panel_.columns, cotangents_at(at, 0) + first * at.tiles,
             cotangents_at(at, 1) - cotangents_at(at, 0), [&](int64_t i, float* points) {
               float lines[4 * kStrip];
               const Plane image{dtype_, w_, start(p_.w, first + i, at.image), p_.w[1], p_.w[2]};
               const auto segment = [&](int64_t row, int64_t column, int64_t from, int64_t size) {
                 image.read(2 * row, 2 * column, 2 * size, lines);
                 image.read(2 * row + 1, 2 * column, 2 * size, lines + 2 * size);
                 vector_loop<CotangentPoints, const float*>(lines, size, points + from, at.tiles);
               };
               tiles_.for_segments(at.tile, at.tile + at.tiles, segment);
             });
  }

  int64_t start(const Axes& sizes, int64_t channel, int64_t image) const {
    return (channel * p_.in + image) * sizes[1] * sizes[2];
  }

  /// Stores the points [channels, points, tiles] that `of_channel` computes as panels, `step`
  /// apart.
  void as_panel(const Place& at, int64_t count, int64_t width, float* to, int64_t step,
                const auto& of_channel) const {
    thread_local Buffer rows_buffer;
    thread_local Buffer panel_buffer;
    float* rows = rows_buffer.floats(width * kPoints * at.tiles);
    // Through a buffer: the spare floats after a panel may belong to another thread.
    float* panel = panel_buffer.floats(width * at.tiles + kPanelSpare);
    for (int64_t i = 0; i < count; ++i) {
      of_channel(i, rows + i * kPoints * at.tiles);
    }
    for (int64_t point = 0; point < kPoints; ++point) {
      const auto* from = reinterpret_cast<const char*>(rows + point * at.tiles);
      pack_panels({DType::F32, from, kPoints * at.tiles, 1}, count, width, at.tiles, panel);
      std::copy_n(panel, width * at.tiles, to + point * step);
    }
  }

  void write(int64_t first, int64_t channels, int64_t channel) const {
    thread_local Buffer taps_buffer;
    thread_local Buffer kernels_buffer;
    float* taps = taps_buffer.floats(kTaps * p_.out);
    float* kernels = kernels_buffer.floats(kTaps * p_.out);
    vector_loop<KernelTaps>(sums_ + channel * p_.out, channels * p_.out, p_.out, taps);
    for (int64_t tap = 0; tap < kTaps; ++tap) {
      for (int64_t i = 0; i < p_.out; ++i) {
        kernels[i * kTaps + tap] = taps[tap * p_.out + i];
      }
    }
    write_floats(dtype_, kernels, kTaps * p_.out, y_, (first + channel) * p_.out * kTaps);
  }

  const ConvolutionPlan p_;
  const Tiles tiles_;
  const PanelTile panel_ = panel_tile();
  const DType dtype_;
  const char* x_;
  const char* w_;
  char* y_;
  int64_t share_ = 0;     // channels of x whose sums are in memory
  int64_t out_ = 0;       // channels of w, padded to whole panels
  int64_t together_ = 0;  // tiles that are multiplied together
  Buffer inputs_buffer_, cotangents_buffer_, sums_buffer_;
  float* inputs_ = nullptr;      // points, panels of channels of x
  float* cotangents_ = nullptr;  // points, panels of channels of w
  float* sums_ = nullptr;        // points, channels of x, channels of w
};

}  // namespace

bool is_winograd_kernel_gradient(const ConvolutionPlan& plan, DType dtype) {
  return plan.y == ConvolutionPlan::Axes{1, 3, 3} && plan.w[0] == 1 && plan.x[0] == 1 &&
         plan.low[0] == 0 && product_dtype(dtype) == DType::F32 &&
         std::min(plan.batch, plan.out) >= kFewChannels &&
         Tiles(plan.w[1], plan.w[2]).count() >= kFewTiles;
}

void winograd_kernel_gradient(const ConvolutionPlan& plan, DType dtype, const void* x,
                              const void* w, void* y, const ParallelFor& parallel_for) {
  KernelGradient(plan, dtype, static_cast<const char*>(x), static_cast<const char*>(w),
                 static_cast<char*>(y))
      .run(parallel_for);
}

}  // namespace kinema::kernels
