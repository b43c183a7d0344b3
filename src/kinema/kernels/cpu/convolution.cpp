#include "kinema/kernels/cpu/convolution.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "kinema/core/error.h"
#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/float_loops.h"
#include "kinema/kernels/cpu/kernel_gradient.h"
#include "kinema/kernels/cpu/onednn.h"
#include "kinema/kernels/cpu/rounding.h"
#include "kinema/kernels/cpu/tile_convolution.h"
#include "kinema/kernels/cpu/winograd.h"

namespace kinema::kernels {
namespace {

using dnnl::memory;
using Axes = ConvolutionPlan::Axes;

/// The smallest part size that gives as few parts as `limit` does.
int64_t balanced(int64_t size, int64_t limit) { return ceil_div(size, ceil_div(size, limit)); }

/// How a plan is split. It depends only on rows, columns and channels, not on frames, batch or
/// threads: oneDNN gets the same small convolution for every tile.
struct Cut {
  int64_t rows, columns;        // of the result, in one tile
  int64_t channels;             // of the result, packed together
  int64_t in_rows, in_columns;  // of x that a tile reads, zero padding included
  int64_t in_frames;            // of x that one frame of the result reads

  explicit Cut(const ConvolutionPlan& p) {
    constexpr int64_t kPixels = 512;  // enough to amortise a pass over a block of weights
    constexpr int64_t kColumns = 64;
    constexpr int64_t kChannels = 128;
    columns = balanced(p.y[2], std::max(kColumns, kPixels / p.y[1]));
    rows = balanced(p.y[1], std::max<int64_t>(1, kPixels / columns));
    channels = p.out <= kChannels ? p.out : ceil_div(balanced(p.out, kChannels), 16) * 16;
    const auto span = [&](size_t axis, int64_t size) {
      return (size - 1) * p.stride[axis] + (p.w[axis] - 1) * p.dilation[axis] + 1;
    };
    in_frames = span(0, 1);
    in_rows = span(1, rows);
    in_columns = span(2, columns);
  }

  int64_t blocks(const ConvolutionPlan& p) const { return ceil_div(p.out, channels); }
};

memory::dims kernel_dims(const ConvolutionPlan& p, int64_t channels) {
  return {channels, p.in, p.w[0], p.w[1], p.w[2]};
}

/// The convolution of one tile: one frame of the result, channels last for input and output.
dnnl::convolution_forward::primitive_desc describe(const ConvolutionPlan& p, const Cut& cut,
                                                   DType dtype, bool has_bias) {
  using tag = memory::format_tag;
  const auto type = dnnl_type(dtype);
  const memory::desc x({1, p.in, cut.in_frames, cut.in_rows, cut.in_columns}, type, tag::ndhwc);
  const memory::desc w(kernel_dims(p, cut.channels), type, tag::any);
  const memory::desc bias =
      has_bias ? memory::desc({cut.channels}, dnnl_type(DType::F32), tag::a) : memory::desc();
  const memory::desc y({1, cut.channels, 1, cut.rows, cut.columns}, type, tag::ndhwc);
  const memory::dims stride{1, p.stride[1], p.stride[2]};
  const memory::dims dilation{p.dilation[0] - 1, p.dilation[1] - 1, p.dilation[2] - 1};
  const memory::dims none{0, 0, 0};
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
  constexpr auto kHow = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {dnnl_engine(), kKind, kHow, x, w, bias, y, stride, dilation, none, none};
#else
  return {{kKind, kHow, x, w, bias, y, stride, dilation, none, none}, dnnl_engine()};
#endif
}

/// One call of the kernel.
class Convolution {
 public:
  Convolution(const ConvolutionPlan& plan, DType dtype, const char* x, const char* w, char* y,
              const ConvolutionFusion& with)
      : p_(plan),
        cut_(plan),
        dtype_(dtype),
        tile_dtype_(product_dtype(dtype)),
        bytes_(byte_size(dtype)),
        tile_bytes_(byte_size(tile_dtype_)),
        desc_(describe(plan, cut_, tile_dtype_, with.bias != nullptr)),
        x_(x),
        w_(w),
        y_(y),
        with_(with) {}

  void run(const ParallelFor& parallel_for) {
    const int64_t blocks = cut_.blocks(p_);
    pad_bias();
    const size_t block_bytes = (desc_.weights_desc().get_size() + 63) / 64 * 64;
    const int64_t of_group = ceil_div(p_.y[0], kFrames) * tiles(1) * tiles(2);
    const int64_t places = p_.batch * p_.groups * of_group;
    if (places <= kFewPlaces * p_.groups) {
      // With so few pixels, all packed blocks together would be large: pack each when it is needed.
      parallel_for(p_.groups * blocks, [&](int64_t i) {
        const int64_t group = i / blocks;
        const int64_t block = i % blocks;
        Buffer buffer;
        char* packed = buffer.at_least(block_bytes);
        pack(group, block, packed);
        for (int64_t place = 0; place < places; ++place) {
          if (place / of_group % p_.groups == group) {
            work(place, block, block + 1, [&](int64_t, int64_t) { return packed; });
          }
        }
      });
      return;
    }
    Buffer all;
    char* packed = all.at_least(block_bytes * static_cast<size_t>(p_.groups * blocks));
    const auto block_at = [&](int64_t group, int64_t block) {
      return packed + static_cast<size_t>(group * blocks + block) * block_bytes;
    };
    parallel_for(p_.groups * blocks, [&](int64_t i) {
      pack(i / blocks, i % blocks, block_at(i / blocks, i % blocks));
    });
    // With few tiles, split their channels too.
    constexpr int64_t kTasks = 16;
    const int64_t parts = std::min(blocks, ceil_div(kTasks, places));
    parallel_for(places * parts, [&](int64_t i) {
      const int64_t part = i % parts;
      work(i / parts, part * blocks / parts, (part + 1) * blocks / parts, block_at);
    });
  }

 private:
  static constexpr int64_t kFrames = 4;     // of the result, that share the input frames
  static constexpr int64_t kFewPlaces = 2;  // in tiles times frames

  /// Pads the bias with zeros to whole channel blocks.
  void pad_bias() {
    if (with_.bias == nullptr) {
      return;
    }
    const int64_t of_group = cut_.blocks(p_) * cut_.channels;
    float* to = bias_.floats(p_.groups * of_group);
    std::fill_n(to, p_.groups * of_group, 0.0F);
    for (int64_t group = 0; group < p_.groups; ++group) {
      std::copy_n(with_.bias + group * p_.out, p_.out, to + group * of_group);
    }
  }

  int64_t tiles(size_t axis) const {
    return ceil_div(p_.y[axis], axis == 1 ? cut_.rows : cut_.columns);
  }

  /// Packs the weights of one channel block for oneDNN; zeros for channels past the end.
  void pack(int64_t group, int64_t block, char* to) {
    using tag = memory::format_tag;
    dnnl::stream& stream = dnnl_stream();
    const int64_t first = block * cut_.channels;
    const int64_t count = std::min(cut_.channels, p_.out - first);
    // Size of the stored kernels, of which the plan may use only some frames.
    const int64_t frame = p_.w[1] * p_.w[2];
    const int64_t row = p_.in * p_.stored * frame;
    const char* from = w_ + (group * p_.out + first) * row * bytes_;
    const memory::desc given(kernel_dims(p_, cut_.channels), dnnl_type(tile_dtype_),
                             memory::dims{row, p_.stored * frame, frame, p_.w[2], 1});
    Buffer whole;
    if (count < cut_.channels || widens()) {
      char* padded = whole.at_least(static_cast<size_t>(cut_.channels * row * tile_bytes_));
      take(from, count * row, padded);
      std::memset(padded + count * row * tile_bytes_, 0,
                  static_cast<size_t>((cut_.channels - count) * row * tile_bytes_));
      from = padded;
    }
    memory source(given, dnnl_engine(), const_cast<char*>(from + p_.first * frame * tile_bytes_));
    memory target(desc_.weights_desc(), dnnl_engine(), to);
    if (tile_dtype_ == DType::BF16) {
      // oneDNN interleaves pairs of input channels ten times faster when they are contiguous.
      Buffer last;
      memory between(
          {kernel_dims(p_, cut_.channels), dnnl_type(tile_dtype_), tag::odhwi}, dnnl_engine(),
          last.at_least(static_cast<size_t>(cut_.channels * p_.in * p_.w[0] * frame * bytes_)));
      dnnl::reorder(source, between).execute(stream, source, between);
      dnnl::reorder(between, target).execute(stream, between, target);
      stream.wait();
    } else {
      dnnl::reorder(source, target).execute(stream, source, target);
      stream.wait();
    }
  }

  /// One tile: at most kFrames of its frames and some of its channel blocks, whose weights come
  /// from `packed(group, block)`.
  void work(int64_t place, int64_t first_block, int64_t last_block, const auto& packed) {
    const auto next = [&place](int64_t size) {
      const int64_t at = place % size;
      place /= size;
      return at;
    };
    const int64_t column = next(tiles(2)) * cut_.columns;
    const int64_t row = next(tiles(1)) * cut_.rows;
    const int64_t first_frame = next(ceil_div(p_.y[0], kFrames)) * kFrames;
    const int64_t group = next(p_.groups);
    const int64_t batch = next(p_.batch);

    const int64_t frames = std::min(kFrames, p_.y[0] - first_frame);
    const int64_t frame_bytes = cut_.in_rows * cut_.in_columns * p_.in * tile_bytes_;
    const int64_t in_frames = (frames - 1) * p_.stride[0] + cut_.in_frames;
    // Not kept between calls: with many channels it is tens of megabytes per thread.
    Buffer in_buffer;
    Buffer out_buffer;
    char* in = in_buffer.at_least(static_cast<size_t>(in_frames * frame_bytes));
    char* out = out_buffer.at_least(
        static_cast<size_t>(cut_.rows * cut_.columns * cut_.channels * tile_bytes_));
    const int64_t from = (batch * p_.groups + group) * p_.in;
    for (int64_t i = 0; i < in_frames; ++i) {
      read(from, first_frame * p_.stride[0] - p_.low[0] + i, row * p_.stride[1] - p_.low[1],
           column * p_.stride[2] - p_.low[2], in + i * frame_bytes);
    }
    dnnl::stream& stream = dnnl_stream();
    const dnnl::convolution_forward tile(desc_);
    for (int64_t block = first_block; block < last_block; ++block) {
      char* weights = packed(group, block);
      for (int64_t i = 0; i < frames; ++i) {
        memory x(desc_.src_desc(), dnnl_engine(), in + i * p_.stride[0] * frame_bytes);
        memory w(desc_.weights_desc(), dnnl_engine(), weights);
        memory y(desc_.dst_desc(), dnnl_engine(), out);
        std::unordered_map<int, memory> arguments{
            {DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}};
        if (with_.bias != nullptr) {
          const int64_t at = (group * cut_.blocks(p_) + block) * cut_.channels;
          arguments.emplace(DNNL_ARG_BIAS,
                            memory(desc_.bias_desc(), dnnl_engine(), bias_.data() + at * 4));
        }
        tile.execute(stream, arguments);
        stream.wait();
        write(out, (batch * p_.groups + group) * p_.out, block * cut_.channels, first_frame + i,
              row, column);
      }
    }
  }

  /// Reads one frame of a tile's input, [h, w, c]; the corner may lie outside of x.
  void read(int64_t channel, int64_t frame, int64_t row, int64_t column, char* to) {
    const int64_t top = std::max<int64_t>(0, -row);
    const int64_t left = std::max<int64_t>(0, -column);
    const int64_t rows = std::min(cut_.in_rows, p_.x[1] - row) - top;
    const int64_t columns = std::min(cut_.in_columns, p_.x[2] - column) - left;
    const bool outside = frame < 0 || frame >= p_.x[0] || rows <= 0 || columns <= 0;
    if (outside || rows < cut_.in_rows || columns < cut_.in_columns) {
      std::memset(to, 0, static_cast<size_t>(cut_.in_rows * cut_.in_columns * p_.in * tile_bytes_));
    }
    if (outside) {
      return;
    }
    const int64_t plane = p_.x[1] * p_.x[2];
    const int64_t start =
        (channel * p_.x[0] + frame) * plane + (row + top) * p_.x[2] + column + left;
    const char* from = x_ + start * bytes_;
    Axes strides{p_.x[0] * plane, p_.x[2], 1};
    Buffer taken;
    if (widens() || with_.channels != nullptr) {
      char* rows_of = taken.at_least(static_cast<size_t>(p_.in * rows * columns * tile_bytes_));
      for (int64_t i = 0; i < p_.in * rows; ++i) {
        const char* row_of = from + (i / rows * strides[0] + i % rows * strides[1]) * bytes_;
        char* to_row = rows_of + i * columns * tile_bytes_;
        if (with_.channels != nullptr) {
          take_activated(row_of, columns, with_.channels[channel + i / rows], to_row);
        } else {
          take(row_of, columns, to_row);
        }
      }
      from = rows_of;
      strides = {rows * columns, columns, 1};
    }
    dnnl_copy(tile_dtype_, {p_.in, rows, columns}, from, strides,
              to + (top * cut_.in_columns + left) * p_.in * tile_bytes_,
              {1, cut_.in_columns * p_.in, p_.in});
  }

  /// Writes the part of a tile's [h, w, o] that lies inside of y.
  void write(const char* from, int64_t group_channel, int64_t channel, int64_t frame, int64_t row,
             int64_t column) {
    const int64_t channels = std::min(cut_.channels, p_.out - channel);
    const int64_t rows = std::min(cut_.rows, p_.y[1] - row);
    const int64_t columns = std::min(cut_.columns, p_.y[2] - column);
    const int64_t plane = p_.y[1] * p_.y[2];
    const int64_t start =
        ((group_channel + channel) * p_.y[0] + frame) * plane + row * p_.y[2] + column;
    char* to = y_ + start * bytes_;
    const Axes strides{p_.y[0] * plane, p_.y[2], 1};
    const Axes sizes{channels, rows, columns};
    const Axes tile_strides{1, cut_.columns * cut_.channels, cut_.channels};
    if (!widens()) {
      dnnl_copy(dtype_, sizes, from, tile_strides, to, strides);
      return;
    }
    Buffer wide;
    auto* sums = reinterpret_cast<float*>(
        wide.at_least(static_cast<size_t>(channels * rows * columns * tile_bytes_)));
    dnnl_copy(tile_dtype_, sizes, from, tile_strides, reinterpret_cast<char*>(sums),
              {rows * columns, columns, 1});
    for (int64_t i = 0; i < channels * rows; ++i) {
      char* row_of = to + (i / rows * strides[0] + i % rows * strides[1]) * bytes_;
      to_bf16(sums + i * columns, columns, 1.0F, reinterpret_cast<uint16_t*>(row_of));
    }
  }

  /// Whether tiles have a wider dtype than x and y.
  bool widens() const { return tile_dtype_ != dtype_; }

  /// Copies contiguous elements into a tile, converted to its dtype.
  void take(const char* from, int64_t count, char* to) const {
    if (widens()) {
      from_bf16(reinterpret_cast<const uint16_t*>(from), count, reinterpret_cast<float*>(to));
    } else {
      std::memcpy(to, from, static_cast<size_t>(count * bytes_));
    }
  }

  /// The same, through norm and SiLU.
  void take_activated(const char* from, int64_t count, const ActivatedChannel& channel, char* to) {
    thread_local Buffer buffer;
    float* wide = buffer.floats(count);
    read_floats(dtype_, from, 0, count, wide);
    activate(wide, count, channel);
    write_floats(tile_dtype_, wide, count, to);
  }

  const ConvolutionPlan p_;
  const Cut cut_;
  const DType dtype_, tile_dtype_;
  const int64_t bytes_, tile_bytes_;
  const dnnl::convolution_forward::primitive_desc desc_;
  const char* x_;
  const char* w_;
  char* y_;
  const ConvolutionFusion with_;
  Buffer bias_;
};

}  // namespace

bool has_fast_convolution(const ConvolutionPlan& plan, DType dtype) {
  if (!has_fast_product(dtype)) {
    return false;
  }
  if (is_winograd(plan, dtype) || is_kernel_gradient(plan) || is_tile_convolution(plan, dtype)) {
    return true;
  }
  try {
    dnnl_stream();
    const auto desc = describe(plan, Cut(plan), product_dtype(dtype), false);
    return !std::string_view(desc.impl_info_str()).starts_with("ref");
  } catch (const dnnl::error&) {
    return false;
  }
}

void convolution(const ConvolutionPlan& plan, DType dtype, const void* x, const void* w, void* y,
                 const ParallelFor& parallel_for, const ConvolutionFusion& with) {
  if (is_winograd(plan, dtype)) {
    winograd_convolution(plan, dtype, x, w, y, parallel_for, with);
    return;
  }
  if (!is_kernel_gradient(plan) && is_tile_convolution(plan, dtype)) {
    tile_convolution(plan, dtype, x, w, y, parallel_for, with);
    return;
  }
  try {
    dnnl_stream();
    if (is_kernel_gradient(plan)) {
      kernel_gradient(plan, dtype, x, w, y, parallel_for);
      return;
    }
    Convolution(plan, dtype, static_cast<const char*>(x), static_cast<const char*>(w),
                static_cast<char*>(y), with)
        .run(parallel_for);
  } catch (const dnnl::error& error) {
    fail("[convolution kernel] oneDNN refuses {} to {} channels: {}", plan.in, plan.out,
         error.message);
  }
}

}  // namespace kinema::kernels
