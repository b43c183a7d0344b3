#include "kinema/kernels/cpu/tile_convolution.h"

#include <algorithm>
#include <cstring>

#include "kinema/kernels/cpu/amx_product.h"
#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/float_loops.h"
#include "kinema/kernels/cpu/frame_cache.h"
#include "kinema/kernels/cpu/rounding.h"
#include "kinema/kernels/cpu/tile_product.h"

namespace kinema::kernels {
namespace {

constexpr int64_t kNumber = sizeof(uint16_t);

/// How the work is split. It depends only on rows, columns and channels.
struct Cut {
  int64_t columns;   // in a segment of a row
  int64_t segments;  // in a row
  int64_t rows;      // of the result that all threads compute together
  int64_t lines;     // rows per task
  int64_t channels;  // of the result, per task

  explicit Cut(const ConvolutionPlan& p) {
    constexpr int64_t kColumns = 256;
    constexpr int64_t kChannels = 320;
    constexpr int64_t kPacked = int64_t{8} << 20;  // bytes
    segments = ceil_div(p.y[2], kColumns);
    columns = round_up(ceil_div(p.y[2], segments), kTileColumns);
    const int64_t row_bytes = segments * columns * p.in * p.w[0] * p.w[2] * kNumber;
    const int64_t most = std::max<int64_t>(1, kPacked / row_bytes - (p.w[1] - 1));
    rows = ceil_div(p.y[1], ceil_div(p.y[1], most));
    lines = std::clamp<int64_t>(kColumns / columns, 1, rows);
    channels = round_up(ceil_div(p.out, ceil_div(p.out, kChannels)), 2 * kTileHeight);
  }
};

class TileConvolution {
 public:
  TileConvolution(const ConvolutionPlan& plan, const uint16_t* x, const uint16_t* w, uint16_t* y,
                  const ConvolutionFusion& with)
      : p_(plan), cut_(plan), x_(x), w_(w), y_(y), with_(with) {}

  void run(const ParallelFor& parallel_for) {
    const int64_t taps = p_.w[0] * p_.w[1] * p_.w[2];
    weights_ = numbers(weights_buffer_, taps * p_.out * p_.in);
    rows_ = numbers(rows_buffer_, FrameCache::slots(p_) * (cut_.rows + p_.w[1] - 1) * row_size());
    for (int64_t group = 0; group < p_.groups; ++group) {
      parallel_for(p_.out, [&](int64_t channel) { take_weights(group, channel); });
      for (int64_t batch = 0; batch < p_.batch; ++batch) {
        for (int64_t row = 0; row < p_.y[1]; row += cut_.rows) {
          work({batch, group, row, std::min(cut_.rows, p_.y[1] - row)}, parallel_for);
        }
      }
    }
  }

 private:
  struct Place {
    int64_t batch, group;
    int64_t row, rows;  // of the result
  };

  static uint16_t* numbers(Buffer& buffer, int64_t count) {
    return reinterpret_cast<uint16_t*>(buffer.at_least(static_cast<size_t>(count * kNumber)));
  }

  /// Elements of one input row segment, packed for each kernel column.
  int64_t segment_size() const { return p_.w[2] * p_.in * cut_.columns; }
  int64_t row_size() const { return cut_.segments * segment_size(); }
  uint16_t* packed(int64_t frame, int64_t row, int64_t segment) const {
    const int64_t rows = cut_.rows + p_.w[1] - 1;
    return rows_ + (FrameCache::slot(p_, frame) * rows + row) * row_size() +
           segment * segment_size();
  }

  /// Copies w[o, c, tap] of one o to weights_[tap, o, c].
  void take_weights(int64_t group, int64_t channel) const {
    const int64_t stored = p_.stored * p_.w[1] * p_.w[2];
    const int64_t taps = p_.w[0] * p_.w[1] * p_.w[2];
    const uint16_t* from =
        w_ + (group * p_.out + channel) * p_.in * stored + p_.first * p_.w[1] * p_.w[2];
    for (int64_t tap = 0; tap < taps; ++tap) {
      uint16_t* to = weights_ + (tap * p_.out + channel) * p_.in;
      for (int64_t in = 0; in < p_.in; ++in) {
        to[in] = from[in * stored + tap];
      }
    }
  }

  /// Some rows of all frames.
  void work(const Place& at, const ParallelFor& parallel_for) {
    FrameCache held(p_);
    const int64_t read_rows = at.rows + p_.w[1] - 1;
    for (int64_t frame = 0; frame < p_.y[0]; ++frame) {
      held.load_for(frame, [&](int64_t read) {
        parallel_for(read_rows * cut_.segments, [&](int64_t piece) {
          pack(at, read, piece / cut_.segments, piece % cut_.segments);
        });
      });
      const int64_t blocks = ceil_div(p_.out, cut_.channels);
      const int64_t lines = ceil_div(at.rows, cut_.lines);
      parallel_for(lines * cut_.segments * blocks, [&](int64_t piece) {
        const int64_t place = piece / blocks;
        multiply(at, frame, place / cut_.segments * cut_.lines, place % cut_.segments,
                 piece % blocks * cut_.channels);
      });
    }
  }

  /// Packs a segment of an input row, through norm and SiLU, zeros outside of x.
  void pack(const Place& at, int64_t frame, int64_t row, int64_t segment) const {
    thread_local Buffer segment_buffer;
    thread_local Buffer wide_buffer;
    const int64_t width = cut_.columns + p_.w[2] - 1;
    uint16_t* taken = numbers(segment_buffer, p_.in * width);
    float* wide = wide_buffer.floats(width);
    const int64_t y = at.row + row - p_.low[1];
    const int64_t x = segment * cut_.columns - p_.low[2];
    const int64_t left = std::max<int64_t>(0, -x);
    const int64_t count = y < 0 || y >= p_.x[1] ? 0 : std::min(width, p_.x[2] - x) - left;
    if (count < width) {
      std::memset(taken, 0, static_cast<size_t>(p_.in * width * kNumber));
    }
    for (int64_t in = 0; in < p_.in && count > 0; ++in) {
      const int64_t channel = (at.batch * p_.groups + at.group) * p_.in + in;
      const uint16_t* from = x_ + ((channel * p_.x[0] + frame) * p_.x[1] + y) * p_.x[2] + x + left;
      uint16_t* to = taken + in * width + left;
      if (with_.channels == nullptr) {
        std::memcpy(to, from, static_cast<size_t>(count * kNumber));
      } else {
        from_bf16(from, count, wide);
        activate(wide, count, with_.channels[channel]);
        to_bf16(wide, count, 1.0F, to);
      }
    }
    uint16_t* to = packed(frame, row, segment);
    for (int64_t column = 0; column < p_.w[2]; ++column) {
      pack_tiles(taken + column, p_.in, cut_.columns, width, 1, to + column * p_.in * cut_.columns);
    }
  }

  /// Some channels of some rows of a segment.
  void multiply(const Place& at, int64_t frame, int64_t line, int64_t segment,
                int64_t channel) const {
    thread_local Buffer buffer;
    const int64_t lines = std::min(cut_.lines, at.rows - line);
    const int64_t channels = std::min(cut_.channels, p_.out - channel);
    const int64_t step = lines * cut_.columns;
    float* sums = buffer.floats(cut_.channels * cut_.lines * cut_.columns);
    bool adds = false;
    for (int64_t i = 0; i < p_.w[0]; ++i) {
      const int64_t read = FrameCache::read(p_, frame, i);
      if (!FrameCache::is_inside(p_, read)) {
        continue;
      }
      for (int64_t tap = 0; tap < p_.w[1] * p_.w[2]; ++tap) {
        const uint16_t* w = weights_ + ((i * p_.w[1] * p_.w[2] + tap) * p_.out + channel) * p_.in;
        for (int64_t j = 0; j < lines; ++j) {
          const uint16_t* row = packed(read, line + j + tap / p_.w[2], segment) +
                                tap % p_.w[2] * p_.in * cut_.columns;
          multiply_tiles(channels, p_.in, cut_.columns, w, p_.in, row, sums + j * cut_.columns,
                         step, adds);
        }
        adds = true;
      }
    }
    if (!adds) {
      std::fill_n(sums, channels * step, 0.0F);
    }
    const int64_t count = std::min(cut_.columns, p_.y[2] - segment * cut_.columns);
    for (int64_t i = 0; i < channels; ++i) {
      const int64_t of_group = at.group * p_.out + channel + i;
      const int64_t plane =
          ((at.batch * p_.groups * p_.out + of_group) * p_.y[0] + frame) * p_.y[1];
      if (with_.bias != nullptr) {
        add_to_floats(with_.bias[of_group], step, sums + i * step);
      }
      for (int64_t j = 0; j < lines; ++j) {
        to_bf16(sums + i * step + j * cut_.columns, count, 1.0F,
                y_ + (plane + at.row + line + j) * p_.y[2] + segment * cut_.columns);
      }
    }
  }

  const ConvolutionPlan p_;
  const Cut cut_;
  const uint16_t* x_;
  const uint16_t* w_;
  uint16_t* y_;
  const ConvolutionFusion with_;
  Buffer weights_buffer_, rows_buffer_;
  uint16_t* weights_ = nullptr;  // taps, channels of the result, channels
  uint16_t* rows_ = nullptr;     // slots, rows, segments, columns of the kernel, tiles
};

}  // namespace

bool is_tile_convolution(const ConvolutionPlan& plan, DType dtype) {
  bool plain = true;
  for (const size_t axis : {1, 2}) {
    plain = plain && plan.stride[axis] == 1 && plan.dilation[axis] == 1;
  }
  const Cut cut(plan);
  // At most a quarter of a segment's columns may be padding.
  const bool fills = 4 * plan.y[2] >= 3 * cut.segments * cut.columns;
  return plain && fills && uses_tiles(dtype) && plan.in % kTileDepth == 0 &&
         plan.out >= 2 * kTileHeight;
}

void tile_convolution(const ConvolutionPlan& plan, DType /*dtype*/, const void* x, const void* w,
                      void* y, const ParallelFor& parallel_for, const ConvolutionFusion& with) {
  TileConvolution(plan, static_cast<const uint16_t*>(x), static_cast<const uint16_t*>(w),
                  static_cast<uint16_t*>(y), with)
      .run(parallel_for);
}

}  // namespace kinema::kernels
