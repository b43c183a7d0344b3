#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/media/av.h"
#include "kinema/media/video.h"

namespace kinema::media {
namespace {

// Colours are distinguished by the upper five bits of each channel.
constexpr int kBits = 5;
constexpr size_t kCells = size_t{1} << (3 * kBits);
constexpr size_t kColours = 256;

size_t cell_of(const uint8_t* rgb) {
  constexpr int kDropped = 8 - kBits;
  return (static_cast<size_t>(rgb[0] >> kDropped) << (2 * kBits)) |
         (static_cast<size_t>(rgb[1] >> kDropped) << kBits) | (rgb[2] >> kDropped);
}

/// The pixels of a cell: their number and sum.
struct Cell {
  size_t index = 0;
  int64_t count = 0;
  std::array<int64_t, 3> sum{};

  int level(int channel) const {
    return static_cast<int>(index >> ((2 - channel) * kBits)) & ((1 << kBits) - 1);
  }
};

/// Cells with one colour.
struct Box {
  size_t begin = 0, end = 0;
  int64_t count = 0;
  int widest = 0;  // channel
  int width = 0;

  Box(const std::vector<Cell>& cells, size_t from, size_t to) : begin(from), end(to) {
    std::array<int, 3> low{255, 255, 255};
    std::array<int, 3> high{};
    for (size_t i = begin; i < end; ++i) {
      count += cells[i].count;
      for (int c = 0; c < 3; ++c) {
        low[c] = std::min(low[c], cells[i].level(c));
        high[c] = std::max(high[c], cells[i].level(c));
      }
    }
    for (int c = 0; c < 3; ++c) {
      if (high[c] - low[c] > width) {
        width = high[c] - low[c];
        widest = c;
      }
    }
  }
  /// The priority for splitting: many different pixels.
  double weight() const { return static_cast<double>(count) * width * width; }
};

/// At most 256 colours for all frames by median cut: the box with the largest weight is split at
/// the median of its pixels, until there are enough boxes.
class Palette {
 public:
  explicit Palette(const HostArray& frames) : of_cell_(kCells, 0) {
    std::vector<Cell> cells = used_cells(frames);
    std::vector<Box> boxes{Box(cells, 0, cells.size())};
    while (boxes.size() < kColours) {
      const auto box = std::ranges::max_element(boxes, {}, &Box::weight);
      if (box->width == 0) {
        break;
      }
      const auto [first, second] = cut(cells, *box);
      *box = first;
      boxes.push_back(second);
    }
    for (size_t i = 0; i < boxes.size(); ++i) {
      std::array<int64_t, 3> sum{};
      for (size_t at = boxes[i].begin; at < boxes[i].end; ++at) {
        of_cell_[cells[at].index] = static_cast<uint8_t>(i);
        for (int c = 0; c < 3; ++c) {
          sum[c] += cells[at].sum[c];
        }
      }
      uint32_t colour = 0xff;
      for (int c = 0; c < 3; ++c) {
        colour =
            (colour << 8) | static_cast<uint32_t>((sum[c] + boxes[i].count / 2) / boxes[i].count);
      }
      colours_[i] = colour;
    }
  }

  uint8_t index(const uint8_t* rgb) const { return of_cell_[cell_of(rgb)]; }
  const std::array<uint32_t, kColours>& argb() const { return colours_; }

 private:
  static std::vector<Cell> used_cells(const HostArray& frames) {
    std::vector<Cell> all(kCells);
    const auto* rgb = reinterpret_cast<const uint8_t*>(frames.bytes.data());
    for (size_t i = 0; i + 2 < frames.bytes.size(); i += 3) {
      Cell& cell = all[cell_of(rgb + i)];
      ++cell.count;
      for (size_t c = 0; c < 3; ++c) {
        cell.sum[c] += rgb[i + c];
      }
    }
    std::vector<Cell> used;
    for (size_t i = 0; i < kCells; ++i) {
      if (all[i].count > 0) {
        used.push_back(all[i]);
        used.back().index = i;
      }
    }
    return used;
  }

  static std::pair<Box, Box> cut(std::vector<Cell>& cells, const Box& box) {
    const auto at = [&](size_t i) { return cells.begin() + static_cast<int64_t>(i); };
    const int channel = box.widest;
    // Ties are broken by the cell's number, so that the order does not depend on the sort.
    std::sort(at(box.begin), at(box.end), [channel](const Cell& a, const Cell& b) {
      return a.level(channel) != b.level(channel) ? a.level(channel) < b.level(channel)
                                                  : a.index < b.index;
    });
    size_t middle = box.begin + 1;
    int64_t before = cells[box.begin].count;
    while (middle + 1 < box.end && before + cells[middle].count <= box.count / 2) {
      before += cells[middle++].count;
    }
    return {Box(cells, box.begin, middle), Box(cells, middle, box.end)};
  }

  std::vector<uint8_t> of_cell_;
  std::array<uint32_t, kColours> colours_{};
};

void must(int result) {
  check(result >= 0, "[video] a GIF could not be made: {}", av::reason(result));
}

/// A muxer with output to memory.
class GifWriter {
 public:
  GifWriter(int64_t height, int64_t width, double fps) {
    av::silence();
    AVFormatContext* format = nullptr;
    avformat_alloc_output_context2(&format, nullptr, "gif", nullptr);
    format_.reset(format);
    const AVCodec* encoder = avcodec_find_encoder(AV_CODEC_ID_GIF);
    check(format_ != nullptr && encoder != nullptr, "[video] this libavcodec has no GIF encoder");
    codec_.reset(avcodec_alloc_context3(encoder));
    frame_.reset(av_frame_alloc());
    packet_.reset(av_packet_alloc());
    check(codec_ != nullptr && frame_ != nullptr && packet_ != nullptr, "[video] out of memory");
    codec_->width = frame_->width = static_cast<int>(width);
    codec_->height = frame_->height = static_cast<int>(height);
    codec_->pix_fmt = AV_PIX_FMT_PAL8;
    frame_->format = AV_PIX_FMT_PAL8;
    codec_->time_base = av_inv_q(av_d2q(fps, 100'000));
    codec_->thread_count = 1;
    codec_->flags |= AV_CODEC_FLAG_BITEXACT;
    must(avcodec_open2(codec_.get(), encoder, nullptr));
    must(av_frame_get_buffer(frame_.get(), 0));
    stream_ = avformat_new_stream(format_.get(), nullptr);
    check(stream_ != nullptr, "[video] out of memory");
    must(avcodec_parameters_from_context(stream_->codecpar, codec_.get()));
    stream_->time_base = codec_->time_base;
    format_->flags |= AVFMT_FLAG_BITEXACT;
    must(avio_open_dyn_buf(&format_->pb));
    const int begun = avformat_write_header(format_.get(), nullptr);
    if (begun < 0) {
      take();  // the destructor does not run
    }
    must(begun);
  }
  GifWriter(const GifWriter&) = delete;
  GifWriter& operator=(const GifWriter&) = delete;
  ~GifWriter() { take(); }

  void add(const uint8_t* rgb, int enlarge, const Palette& palette) {
    must(av_frame_make_writable(frame_.get()));
    const int columns = codec_->width / enlarge;
    for (int y = 0; y < codec_->height; ++y) {
      const uint8_t* row = rgb + static_cast<int64_t>(y / enlarge) * columns * 3;
      uint8_t* to = frame_->data[0] + static_cast<int64_t>(y) * frame_->linesize[0];
      for (int x = 0; x < codec_->width; ++x) {
        to[x] = palette.index(row + static_cast<int64_t>(x / enlarge) * 3);
      }
    }
    std::memcpy(frame_->data[1], palette.argb().data(), sizeof(palette.argb()));
    frame_->pts = next_++;
    send(frame_.get());
  }

  std::string finish() {
    send(nullptr);
    must(av_write_trailer(format_.get()));
    return take();
  }

 private:
  void send(const AVFrame* frame) {
    must(avcodec_send_frame(codec_.get(), frame));
    for (;;) {
      const int result = avcodec_receive_packet(codec_.get(), packet_.get());
      if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) {
        return;
      }
      must(result);
      packet_->duration = 1;
      av_packet_rescale_ts(packet_.get(), codec_->time_base, stream_->time_base);
      packet_->stream_index = stream_->index;
      must(av_interleaved_write_frame(format_.get(), packet_.get()));
    }
  }

  std::string take() {
    std::string out;
    if (format_ != nullptr && format_->pb != nullptr) {
      uint8_t* bytes = nullptr;
      const int size = avio_close_dyn_buf(format_->pb, &bytes);
      format_->pb = nullptr;
      if (bytes != nullptr && size > 0) {
        out.assign(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
      }
      av_free(bytes);
    }
    return out;
  }

  av::Output format_;
  AVStream* stream_ = nullptr;
  av::Codec codec_;
  av::Frame frame_;
  av::Packet packet_;
  int64_t next_ = 0;
};

}  // namespace

std::string encode_gif(const HostArray& frames, const GifOptions& options) {
  const Shape& shape = frames.shape;
  check(shape.dtype == DType::U8 && shape.rank() == 4 && shape.dims[3] == 3 && shape.elements() > 0,
        "[video] encode_gif was given {}, u8 [f, h, w, 3] was expected", to_string(shape));
  check(options.fps > 0 && options.fps <= 1000, "[video] fps is {} but must be in (0, 1000]",
        options.fps);
  check(options.enlarge >= 1 && options.enlarge <= 64, "[video] enlarge is {} but must be in 1..64",
        options.enlarge);
  const int64_t height = shape.dims[1] * options.enlarge;
  const int64_t width = shape.dims[2] * options.enlarge;
  constexpr int64_t kLongestSide = 65535;  // a GIF stores its size in two bytes
  check(height <= kLongestSide && width <= kLongestSide,
        "[video] frames of {} are larger than a GIF may be", to_string(shape));
  const Palette palette(frames);
  GifWriter writer(height, width, options.fps);
  const auto* rgb = reinterpret_cast<const uint8_t*>(frames.bytes.data());
  for (int64_t f = 0; f < shape.dims[0]; ++f) {
    writer.add(rgb + f * shape.dims[1] * shape.dims[2] * 3, options.enlarge, palette);
  }
  return writer.finish();
}

}  // namespace kinema::media
