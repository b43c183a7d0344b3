#include "kinema/kernels/cpu/winograd.h"

#include <algorithm>

#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/frame_cache.h"
#include "kinema/kernels/cpu/panels.h"
#include "kinema/kernels/cpu/winograd_tiles.h"

namespace kinema::kernels {
namespace {

constexpr int64_t kTaps = 9;   // of a kernel: 3 x 3
constexpr int64_t kLanes = 8;  // kernels that are transformed together

/// A^T m A of `tiles` adjacent tiles: two lines of 2 tiles pixels each.
struct Results {
  [[gnu::always_inline]] static void run(const float* points, int64_t step, int64_t tiles,
                                         float* lines) {
    const auto at = [points, step](int64_t row, int64_t column) {
      return points + (4 * row + column) * step;
    };
    float* first = lines;
    float* second = lines + 2 * tiles;
#pragma omp simd
    for (int64_t t = 0; t < tiles; ++t) {
      float left[4];
      float right[4];
#pragma GCC unroll 4
      for (int64_t row = 0; row < 4; ++row) {
        const float m0 = at(row, 0)[t], m1 = at(row, 1)[t], m2 = at(row, 2)[t], m3 = at(row, 3)[t];
        left[row] = m0 + m1 + m2;
        right[row] = m1 - m2 - m3;
      }
      first[2 * t] = left[0] + left[1] + left[2];
      first[2 * t + 1] = right[0] + right[1] + right[2];
      second[2 * t] = left[1] - left[2] - left[3];
      second[2 * t + 1] = right[1] - right[2] - right[3];
    }
  }
};

/// G g G^T of kLanes kernels, g[tap][lane]; points[i][lane].
struct KernelPoints {
  [[gnu::always_inline]] static void run(const float* g, float* points) {
#pragma omp simd
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      float rows[4][3];
#pragma GCC unroll 3
      for (int64_t i = 0; i < 3; ++i) {
        const float a = g[i * kLanes + lane];
        const float b = g[(3 + i) * kLanes + lane];
        const float c = g[(6 + i) * kLanes + lane];
        rows[0][i] = a;
        rows[1][i] = 0.5F * (a + b + c);
        rows[2][i] = 0.5F * (a - b + c);
        rows[3][i] = c;
      }
#pragma GCC unroll 4
      for (int64_t i = 0; i < 4; ++i) {
        const float a = rows[i][0];
        const float b = rows[i][1];
        const float c = rows[i][2];
        float* to = points + 4 * i * kLanes + lane;
        to[0] = a;
        to[kLanes] = 0.5F * (a + b + c);
        to[2 * kLanes] = 0.5F * (a - b + c);
        to[3 * kLanes] = c;
      }
    }
  }
};

/// How the work is split. It depends only on rows, columns and channels.
struct Cut {
  PanelTile panel = panel_tile();
  Tiles tiles;
  int64_t together;  // tiles that all threads process together
  int64_t depth;     // channels in a block of panels
  int64_t share;     // result channels whose transformed kernels are in memory at a time
  int64_t block;     // result channels per task

  explicit Cut(const ConvolutionPlan& p) : tiles(p.y[1], p.y[2]) {
    constexpr int64_t kBlock = 48;                // a multiple of every panel
    constexpr int64_t kTiles = 96;                // a multiple of every panel
    constexpr int64_t kShare = int64_t{8} << 20;  // numbers: 32 MiB
    constexpr int64_t kLeast = 4 * kBlock;        // the inputs are transformed again for each share
    together = round_up(ceil_div(tiles.count(), ceil_div(tiles.count(), kTiles)), panel.columns);
    depth = ceil_div(p.in, ceil_div(p.in, kPanelDepth));
    const int64_t most = std::max(kLeast, kShare / (kPoints * p.w[0] * p.in) / kBlock * kBlock);
    share = round_up(ceil_div(p.out, ceil_div(p.out, most)), panel.rows);
    block = std::min(kBlock, share);
  }
};

class Winograd {
 public:
  Winograd(const ConvolutionPlan& plan, DType dtype, const char* x, const char* w, char* y,
           const ConvolutionFusion& with)
      : p_(plan), cut_(plan), dtype_(dtype), x_(x), w_(w), y_(y), with_(with) {}

  void run(const ParallelFor& parallel_for) {
    kernels_ = kernels_buffer_.floats(kPoints * p_.w[0] * p_.in * cut_.share);
    inputs_ = inputs_buffer_.floats(FrameCache::slots(p_) * slot_size());
    sums_ = sums_buffer_.floats(kPoints * cut_.share * cut_.together);
    for (int64_t group = 0; group < p_.groups; ++group) {
      for (int64_t first = 0; first < p_.out; first += cut_.share) {
        const int64_t channels = std::min(cut_.share, p_.out - first);
        parallel_for(ceil_div(channels, cut_.panel.rows), [&](int64_t panel) {
          const int64_t channel = panel * cut_.panel.rows;
          to_points(group * p_.out + first + channel, std::min(cut_.panel.rows, channels - channel),
                    panel);
        });
        for (int64_t batch = 0; batch < p_.batch; ++batch) {
          for (int64_t tile = 0; tile < cut_.tiles.count(); tile += cut_.together) {
            work({batch * p_.groups + group, first, channels, tile}, parallel_for);
          }
        }
      }
    }
  }

 private:
  struct Place {
    int64_t group;            // in the batch
    int64_t first, channels;  // of the result, in the group
    int64_t tile;             // the first one
  };

  int64_t slot_size() const { return kPoints * p_.in * cut_.together; }

  /// Transforms the kernels of one panel of result channels, at all points of all kernel frames.
  void to_points(int64_t channel, int64_t count, int64_t panel) const {
    const int64_t lanes = cut_.panel.rows;
    alignas(64) float taps[kTaps * kLanes] = {};
    alignas(64) float points[kPoints * kLanes];
    const int64_t step = p_.stored * kTaps;  // between input channels
    for (int64_t frame = 0; frame < p_.w[0]; ++frame) {
      for (int64_t in = 0; in < p_.in; ++in) {
        for (int64_t lane = 0; lane < count; ++lane) {
          const int64_t at = ((channel + lane) * p_.in + in) * step + (p_.first + frame) * kTaps;
          float kernel[kTaps];
          read_floats(dtype_, w_, at, kTaps, kernel);
          for (int64_t tap = 0; tap < kTaps; ++tap) {
            taps[tap * kLanes + lane] = kernel[tap];
          }
        }
        vector_loop<KernelPoints>(taps, points);
        const int64_t block = in / cut_.depth * cut_.depth;
        const int64_t depth = std::min(cut_.depth, p_.in - block);
        for (int64_t point = 0; point < kPoints; ++point) {
          float* to = kernels_at(frame, point, block) + (panel * depth + in - block) * lanes;
          std::copy_n(points + point * kLanes, lanes, to);
        }
      }
    }
  }

  float* kernels_at(int64_t frame, int64_t point, int64_t block) const {
    return kernels_ + ((frame * kPoints + point) * p_.in + block) * cut_.share;
  }

  /// Some tiles of all frames.
  void work(const Place& at, const ParallelFor& parallel_for) {
    constexpr int64_t kTogether = 8;  // channels per task
    FrameCache held(p_);
    for (int64_t frame = 0; frame < p_.y[0]; ++frame) {
      held.load_for(frame, [&](int64_t read) {
        parallel_for(ceil_div(p_.in, kTogether), [&](int64_t piece) {
          to_points(at, read, piece * kTogether, std::min(p_.in, (piece + 1) * kTogether));
        });
      });
      // Point by point: its inputs stay in L2 for all kernels.
      const int64_t blocks = ceil_div(at.channels, cut_.block);
      parallel_for(kPoints * blocks, [&](int64_t piece) {
        const int64_t channel = piece % blocks * cut_.block;
        multiply(frame, piece / blocks, channel, std::min(cut_.block, at.channels - channel),
                 sums_ + (piece / blocks * at.channels + channel) * cut_.together);
      });
      parallel_for(ceil_div(at.channels, kTogether), [&](int64_t piece) {
        write(at, frame, piece * kTogether, std::min(at.channels, (piece + 1) * kTogether));
      });
    }
  }

  /// sums[channel, tile] of one point, over input channels and frames.
  void multiply(int64_t of_result, int64_t point, int64_t channel, int64_t count,
                float* sums) const {
    bool add = false;
    for (int64_t i = 0; i < p_.w[0]; ++i) {
      const int64_t read = FrameCache::read(p_, of_result, i);
      if (!FrameCache::is_inside(p_, read)) {
        continue;
      }
      const float* frame = inputs_ + FrameCache::slot(p_, read) * slot_size();
      for (int64_t block = 0; block < p_.in; block += cut_.depth) {
        const int64_t depth = std::min(cut_.depth, p_.in - block);
        multiply_panels(count, cut_.together, depth, kernels_at(i, point, block) + channel * depth,
                        frame + (point * p_.in + block) * cut_.together, sums, cut_.together, add);
        add = true;
      }
    }
    if (!add) {
      std::fill_n(sums, count * cut_.together, 0.0F);
    }
  }

  Plane image(const Place& at, int64_t in, int64_t frame) const {
    const int64_t channel = at.group * p_.in + in;
    const int64_t start = (channel * p_.x[0] + frame) * p_.x[1] * p_.x[2];
    const ActivatedChannel* activated = with_.channels ? with_.channels + channel : nullptr;
    return {dtype_, x_, start, p_.x[1], p_.x[2], activated};
  }

  /// Transforms some channels of one input frame, stored as panels of tiles.
  void to_points(const Place& at, int64_t frame, int64_t begin, int64_t end) const {
    thread_local Buffer row_buffer;
    float* row = row_buffer.floats(kPoints * cut_.together);
    std::fill_n(row, kPoints * cut_.together, 0.0F);
    for (int64_t in = begin; in < end; ++in) {
      if (in + 1 < end) {
        expect_points(image(at, in + 1, frame), cut_.tiles, -p_.low[1], -p_.low[2], at.tile,
                      at.tile + cut_.together);
      }
      input_points(image(at, in, frame), cut_.tiles, -p_.low[1], -p_.low[2], at.tile,
                   at.tile + cut_.together, row, cut_.together);
      const int64_t block = in / cut_.depth * cut_.depth;
      const int64_t depth = std::min(cut_.depth, p_.in - block);
      const int64_t panel = cut_.panel.columns;
      for (int64_t point = 0; point < kPoints; ++point) {
        float* to = inputs_ + FrameCache::slot(p_, frame) * slot_size() +
                    (point * p_.in + block) * cut_.together + (in - block) * panel;
        for (int64_t tile = 0; tile < cut_.together; tile += panel) {
          std::copy_n(row + point * cut_.together + tile, panel, to + tile * depth);
        }
      }
    }
  }

  /// Writes tiles of some channels of one frame of the result.
  void write(const Place& at, int64_t frame, int64_t begin, int64_t end) const {
    float lines[4 * kStrip];
    for (int64_t channel = begin; channel < end; ++channel) {
      const int64_t of_y = at.group * p_.out + at.first + channel;  // among all samples and groups
      const int64_t plane = (of_y * p_.y[0] + frame) * p_.y[1] * p_.y[2];
      const float bias = with_.bias ? with_.bias[of_y % (p_.groups * p_.out)] : 0.0F;
      const auto segment = [&](int64_t tile_row, int64_t column, int64_t first, int64_t tiles) {
        vector_loop<Results, const float*, int64_t, int64_t, float*>(
            sums_ + channel * cut_.together + first, at.channels * cut_.together, tiles, lines);
        if (with_.bias) {
          add_to_floats(bias, 4 * tiles, lines);
        }
        const int64_t width = std::min(2 * tiles, p_.y[2] - 2 * column);
        for (int64_t line = 0; line < std::min<int64_t>(2, p_.y[1] - 2 * tile_row); ++line) {
          write_floats(dtype_, lines + line * 2 * tiles, width, y_,
                       plane + (2 * tile_row + line) * p_.y[2] + 2 * column);
        }
      };
      cut_.tiles.for_segments(at.tile, at.tile + cut_.together, segment);
    }
  }

  const ConvolutionPlan p_;
  const Cut cut_;
  const DType dtype_;
  const char* x_;
  const char* w_;
  char* y_;
  const ConvolutionFusion with_;
  Buffer kernels_buffer_, inputs_buffer_, sums_buffer_;
  float* kernels_ = nullptr;  // transformed: frames, points, blocks of channels, panels
  float* inputs_ = nullptr;   // slots, points, blocks of channels, panels
  float* sums_ = nullptr;     // points, channels, tiles
};

}  // namespace

bool is_winograd(const ConvolutionPlan& plan, DType dtype) {
  bool plain = true;
  for (const size_t axis : {1, 2}) {
    plain = plain && plan.w[axis] == 3 && plan.stride[axis] == 1 && plan.dilation[axis] == 1;
  }
  return plain && product_dtype(dtype) == DType::F32 &&
         std::min(plan.in, plan.out) >= kFewChannels &&
         Tiles(plan.y[1], plan.y[2]).count() >= kFewTiles;
}

void winograd_convolution(const ConvolutionPlan& plan, DType dtype, const void* x, const void* w,
                          void* y, const ParallelFor& parallel_for, const ConvolutionFusion& with) {
  Winograd(plan, dtype, static_cast<const char*>(x), static_cast<const char*>(w),
           static_cast<char*>(y), with)
      .run(parallel_for);
}

}  // namespace kinema::kernels
