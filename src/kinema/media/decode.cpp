#include "kinema/media/decode.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "kinema/core/error.h"
#include "kinema/io/file_format.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/av.h"
#include "kinema/media/image.h"
#include "kinema/media/matroska.h"
#include "kinema/media/media_name.h"
#include "kinema/media/orientation.h"
#include "kinema/media/png_chunk.h"
#include "kinema/media/tone_map.h"

namespace kinema::media {
namespace {

constexpr int kIoBufferBytes = 64 * 1024;
// Video containers, by libav's names. Formats that refer to other files (playlists, scripts that
// join clips) are excluded.
constexpr const char* kVideoFormats =
    "mov,matroska,webm,avi,mpegts,mpeg,gif,asf,flv,ogg,ivf,yuv4mpegpipe";

// Time stamps of containers may have a precision of a millisecond: a frame that is
// late by less than this is used.
constexpr double kTimeSlack = 1e-3;

int refuse_to_open(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) {
  return AVERROR(EPERM);
}

// A mapped file as libav's input. No URL is ever parsed, so a name cannot select a protocol.
struct Input {
  explicit Input(std::span<const std::byte> data) : bytes(data) {
    auto* buffer = static_cast<unsigned char*>(av_malloc(kIoBufferBytes));
    io = avio_alloc_context(buffer, kIoBufferBytes, 0, this, &Input::read, nullptr, &Input::seek);
    format = avformat_alloc_context();
    check(io != nullptr && format != nullptr, "[video] out of memory");
    format->pb = io;
    format->flags |= AVFMT_FLAG_CUSTOM_IO;
    format->io_open = refuse_to_open;  // files must not open other files
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  ~Input() {
    avformat_close_input(&format);
    if (io != nullptr) {
      av_freep(&io->buffer);
      avio_context_free(&io);
    }
  }

  static int read(void* self, uint8_t* out, int size) {
    auto& in = *static_cast<Input*>(self);
    const auto left = static_cast<int64_t>(in.bytes.size()) - in.position;
    if (left <= 0 || size <= 0) {
      return AVERROR_EOF;
    }
    const auto n = std::min<int64_t>(left, size);
    std::memcpy(out, in.bytes.data() + in.position, static_cast<size_t>(n));
    in.position += n;
    return static_cast<int>(n);
  }
  static int64_t seek(void* self, int64_t offset, int whence) {
    auto& in = *static_cast<Input*>(self);
    const auto size = static_cast<int64_t>(in.bytes.size());
    switch (whence & ~AVSEEK_FORCE) {
      case AVSEEK_SIZE:
        return size;
      case SEEK_SET:
        break;
      case SEEK_CUR:
        offset += in.position;
        break;
      case SEEK_END:
        offset += size;
        break;
      default:
        return AVERROR(EINVAL);
    }
    if (offset < 0 || offset > size) {
      return AVERROR(EINVAL);
    }
    return in.position = offset;
  }

  std::span<const std::byte> bytes;
  int64_t position = 0;
  AVIOContext* io = nullptr;
  AVFormatContext* format = nullptr;
};

// swscale's table for the frame's colour matrix; without a description, BT.601.
const int* coefficients(const AVFrame& frame) {
  switch (frame.colorspace) {
    case AVCOL_SPC_BT709:
      return sws_getCoefficients(SWS_CS_ITU709);
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL:
      return sws_getCoefficients(SWS_CS_BT2020);
    case AVCOL_SPC_SMPTE240M:
      return sws_getCoefficients(SWS_CS_SMPTE240M);
    default:
      return sws_getCoefficients(SWS_CS_ITU601);
  }
}

bool is_grey(AVPixelFormat format) {
  const AVPixFmtDescriptor* about = av_pix_fmt_desc_get(format);
  constexpr uint64_t kOther = AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM;
  return about != nullptr && about->nb_components <= 2 && (about->flags & kOther) == 0;
}

/// True if pixels of the format may be transparent: with an alpha channel, or with a palette.
bool may_be_transparent(int format) {
  const AVPixFmtDescriptor* about = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(format));
  return about != nullptr && (about->flags & (AV_PIX_FMT_FLAG_ALPHA | AV_PIX_FMT_FLAG_PAL)) != 0;
}

bool is_deeper_than_8_bits(int format) {
  const AVPixFmtDescriptor* about = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(format));
  return about != nullptr && about->comp[0].depth > 8;
}

/// In cd/m2: the file's maximum light level, else the peak of the mastering display; 0: neither is
/// stated. Either block may be missing.
double stated_peak(const AVContentLightMetadata* content,
                   const AVMasteringDisplayMetadata* display) {
  if (content != nullptr && content->MaxCLL > 0) {
    return content->MaxCLL;
  }
  return display != nullptr && display->has_luminance != 0 ? av_q2d(display->max_luminance) : 0;
}

bool is_full_range(const AVFrame& frame) {
  switch (frame.format) {
    case AV_PIX_FMT_YUVJ420P:
    case AV_PIX_FMT_YUVJ422P:
    case AV_PIX_FMT_YUVJ444P:
    case AV_PIX_FMT_YUVJ440P:
      return true;
    default:
      // Grey is full range by default.
      return frame.color_range == AVCOL_RANGE_JPEG ||
             (frame.color_range == AVCOL_RANGE_UNSPECIFIED &&
              is_grey(static_cast<AVPixelFormat>(frame.format)));
  }
}

// The display rotation (phones store upright videos rotated), as an Exif orientation.
int display_orientation(const AVStream& stream) {
  size_t size = 0;
  const uint8_t* data = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
  if (data == nullptr || size < 9 * sizeof(int32_t)) {
    return 1;
  }
  int32_t matrix[9];
  std::memcpy(matrix, data, sizeof(matrix));
  return matrix_orientation(matrix[0], matrix[1], matrix[3], matrix[4]);
}

// How a camera was held, as Exif (CIPA DC-008, tag 0x0112) says it: 1 upright; 2 to 8 otherwise.
int stated_orientation(const AVFrame& frame) {
  const AVDictionaryEntry* entry = av_dict_get(frame.metadata, "Orientation", nullptr, 0);
  const int value = entry == nullptr ? 1 : std::atoi(entry->value);
  return value >= 1 && value <= 8 ? value : 1;
}

class Decoder {
 public:
  Decoder(std::span<const std::byte> bytes, const std::string& name, const char* formats,
          const ReadVideoOptions& options)
      : path_(name), options_(options), input_(bytes) {
    check(!bytes.empty(), "[video] {} is empty", path_);
    const uint64_t whole = matroska_bytes(bytes);  // libav accepts an incomplete file
    check(bytes.size() >= whole, "[video] {} is truncated: {} of {} bytes", path_, bytes.size(),
          whole);
    stored_orientation_ = png_orientation(bytes);  // which libav does not read
    av::silence();
    AVDictionary* settings = nullptr;
    av_dict_set(&settings, "format_whitelist", formats, 0);
    const int opened = avformat_open_input(&input_.format, nullptr, nullptr, &settings);
    av_dict_free(&settings);
    const io::FileFormat is = io::file_format(bytes);
    check(opened >= 0 || !is || is.is_media, "[video] {}",
          io::wrong_format_text(path_, is, "a video"));
    check(opened >= 0, "[video] cannot read {}: {} (is it truncated, or not a {}?)", path_,
          av::reason(opened), is_image(bytes) || is_image_name(path_) ? "picture" : "video");
    const int found = avformat_find_stream_info(input_.format, nullptr);
    check(found >= 0, "[video] cannot read {}: {}", path_, av::reason(found));
    const AVCodec* codec = nullptr;
    const int stream = av_find_best_stream(input_.format, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
    check(stream >= 0 && codec != nullptr, "[video] {} has no video stream that can be decoded",
          path_);
    stream_ = input_.format->streams[stream];
    codec = with_alpha(codec);
    codec_.reset(avcodec_alloc_context3(codec));
    check(codec_ != nullptr && avcodec_parameters_to_context(codec_.get(), stream_->codecpar) >= 0,
          "[video] {} has parameters that cannot be decoded", path_);
    codec_->max_pixels = options.max_pixels;
    codec_->thread_count = 1;  // files are decoded in parallel, on the reader's threads
    codec_->err_recognition = AV_EF_EXPLODE | AV_EF_CAREFUL;
    const int ready = avcodec_open2(codec_.get(), codec, nullptr);
    check(ready >= 0, "[video] cannot decode {}: {}", path_, av::reason(ready));
  }

  /// Reads all packets if the container does not state the number of frames or the duration. Call
  /// it once, because it uses up the packets.
  VideoProbe probe() {
    VideoProbe out;
    out.height = stream_->codecpar->height;
    out.width = stream_->codecpar->width;
    out.pixel_aspect = pixel_aspect(nullptr);
    out.has_alpha = has_alpha();
    out.is_hdr = transfer_of(stream_->codecpar->color_trc) != Transfer::Standard;
    if (lies_on_its_side(display_orientation(*stream_))) {
      std::swap(out.height, out.width);
    }
    out.fps = stated_rate();
    out.frames = stream_->nb_frames;
    out.seconds = static_cast<double>(stream_->duration) * av_q2d(stream_->time_base);
    if (out.frames <= 0 || stream_->duration <= 0) {
      count_packets(out);
    }
    const double mean = static_cast<double>(out.frames) / std::max(out.seconds, 1e-9);
    // A stated rate that does not match the frames, as in videos of variable rate, is ignored.
    if (out.seconds > 0 && std::abs(out.fps * out.seconds - static_cast<double>(out.frames)) >
                               1.5 + 0.02 * static_cast<double>(out.frames)) {
      out.fps = mean;
      out.variable_rate = true;
    }
    return out;
  }

  Video run() {
    const av::Packet packet(av_packet_alloc());
    check(packet != nullptr, "[video] out of memory");
    while (kept_ < options_.max_frames) {
      const int result = av_read_frame(input_.format, packet.get());
      if (result == AVERROR_EOF) {
        send(nullptr);
        break;
      }
      check(result >= 0, "[video] cannot read {} after {} frames: {}", path_, seen_,
            av::reason(result));
      if (packet->stream_index == stream_->index) {
        check((packet->flags & AV_PKT_FLAG_CORRUPT) == 0,
              "[video] {} is corrupt or truncated after {} frames", path_, seen_);
        skipped_ += (packet->flags & AV_PKT_FLAG_DISCARD) != 0 ? 1 : 0;
        send(packet.get());
      }
      av_packet_unref(packet.get());
    }
    hold_last();
    check(seen_ > 0, "[video] {} holds no frame", path_);
    check(kept_ > 0, "[video] {} has {} frames, none after frame {}", path_, seen_,
          options_.first_frame);
    // mp4 states the number of frames: fewer mean that the file is truncated.
    check(kept_ >= options_.max_frames || stream_->nb_frames <= seen_ + skipped_,
          "[video] {} is truncated: {} of {} frames", path_, seen_, stream_->nb_frames);
    HostArray frames;
    frames.shape = {DType::U8, {kept_, height_, width_, 3}};
    frames.bytes = std::move(rgb_);
    frames = upright(upright(std::move(frames), display_orientation(*stream_)), orientation_);
    return {std::move(frames), stated_rate(), pixel_aspect_, has_alpha_, map_.has_value()};
  }

 private:
  /// As marked in WebM.
  bool has_alpha_beside() const {
    const AVDictionaryEntry* mode = av_dict_get(stream_->metadata, "alpha_mode", nullptr, 0);
    return mode != nullptr && std::strcmp(mode->value, "1") == 0;
  }

  /// libav's decoders of VP8 and VP9 ignore WebM's separate alpha channel; libvpx's decode it.
  const AVCodec* with_alpha(const AVCodec* codec) const {
    if (!has_alpha_beside()) {
      return codec;
    }
    const char* name = codec->id == AV_CODEC_ID_VP9   ? "libvpx-vp9"
                       : codec->id == AV_CODEC_ID_VP8 ? "libvpx"
                                                      : "";
    const AVCodec* other = avcodec_find_decoder_by_name(name);
    return other == nullptr ? codec : other;
  }

  /// From the headers. libav's GIF decoder gives all frames an alpha channel: the block before the
  /// first picture (GIF89a, 23) states whether there is a transparent colour.
  bool has_alpha() const {
    if (stream_->codecpar->codec_id != AV_CODEC_ID_GIF) {
      return has_alpha_beside() || may_be_transparent(stream_->codecpar->format);
    }
    const std::string_view text(reinterpret_cast<const char*>(input_.bytes.data()),
                                std::min<size_t>(input_.bytes.size(), 4096));
    const size_t at = text.find("\x21\xf9\x04");
    return at != std::string_view::npos && at + 3 < text.size() && (text[at + 3] & 1) != 0;
  }

  /// For HDR, chooses a tone map from the first frame's metadata for all frames.
  void choose_tone_map(const AVFrame& frame) {
    const Cicp png = png_cicp(input_.bytes);  // libav does not read this chunk
    const Transfer transfer = transfer_of(png.transfer > 0 ? png.transfer : frame.color_trc);
    if (transfer == Transfer::Standard) {
      return;
    }
    const auto of_frame = [&](AVFrameSideDataType type) -> const void* {
      const AVFrameSideData* data = av_frame_get_side_data(&frame, type);
      return data == nullptr ? nullptr : data->data;
    };
    const auto of_stream = [&](AVPacketSideDataType type) -> const void* {
      return av_stream_get_side_data(stream_, type, nullptr);
    };
    const void* content = of_frame(AV_FRAME_DATA_CONTENT_LIGHT_LEVEL);
    const void* display = of_frame(AV_FRAME_DATA_MASTERING_DISPLAY_METADATA);
    content = content != nullptr ? content : of_stream(AV_PKT_DATA_CONTENT_LIGHT_LEVEL);
    display = display != nullptr ? display : of_stream(AV_PKT_DATA_MASTERING_DISPLAY_METADATA);
    map_.emplace(transfer, png.transfer > 0 ? png.primaries : frame.color_primaries,
                 stated_peak(static_cast<const AVContentLightMetadata*>(content),
                             static_cast<const AVMasteringDisplayMetadata*>(display)));
  }

  /// The format to which a frame is converted before it is blended with the background or
  /// tone-mapped.
  AVPixelFormat wanted_format(const AVFrame& frame) const {
    if (map_) {
      return AV_PIX_FMT_RGB48;
    }
    if (!may_be_transparent(frame.format) || options_.background.drop) {
      return AV_PIX_FMT_RGB24;
    }
    return is_deeper_than_8_bits(frame.format) ? AV_PIX_FMT_RGBA64 : AV_PIX_FMT_RGBA;
  }

  /// Converts a row to RGB with 8 bits per channel.
  void finish_row(AVPixelFormat format, const uint8_t* from, std::span<uint8_t> rgb) const {
    const size_t pixels = rgb.size() / 3;
    switch (format) {
      case AV_PIX_FMT_RGB48:
        (*map_)({reinterpret_cast<const uint16_t*>(from), pixels * 3}, rgb);
        break;
      case AV_PIX_FMT_RGBA64:
        put_over(options_.background, {reinterpret_cast<const uint16_t*>(from), pixels * 4}, rgb);
        break;
      case AV_PIX_FMT_RGBA:
        put_over(options_.background, {from, pixels * 4}, rgb);
        break;
      default:
        std::memcpy(rgb.data(), from, rgb.size());
    }
  }

  [[nodiscard]] double stated_rate() const {
    const AVRational rate = av_guess_frame_rate(input_.format, stream_, nullptr);
    return rate.num > 0 && rate.den > 0 ? av_q2d(rate) : 0.0;
  }

  /// Width over height of a displayed pixel after rotation; implausible values become 1.
  double pixel_aspect(AVFrame* frame) const {
    const AVRational stated = av_guess_sample_aspect_ratio(input_.format, stream_, frame);
    const double value = stated.num > 0 && stated.den > 0 ? av_q2d(stated) : 1.0;
    if (value < 0.1 || value > 10) {
      return 1.0;
    }
    return lies_on_its_side(display_orientation(*stream_)) ? 1.0 / value : value;
  }

  /// Counts frames and seconds of the packets, each of which is a frame.
  void count_packets(VideoProbe& out) {
    const av::Packet packet(av_packet_alloc());
    check(packet != nullptr, "[video] out of memory");
    const double tick = av_q2d(stream_->time_base);
    double first = 0;
    double last = 0;
    double shown = 0;  // duration of the last frame
    out.frames = 0;
    int result = 0;
    while ((result = av_read_frame(input_.format, packet.get())) >= 0) {
      const bool hidden = (packet->flags & AV_PKT_FLAG_DISCARD) != 0;
      if (packet->stream_index == stream_->index && !hidden) {
        const int64_t stamp = packet->pts != AV_NOPTS_VALUE ? packet->pts : packet->dts;
        const double time = stamp != AV_NOPTS_VALUE ? static_cast<double>(stamp) * tick
                            : out.frames == 0       ? 0.0
                                                    : last + interval();
        first = out.frames == 0 ? time : std::min(first, time);
        if (out.frames == 0 || time > last) {
          last = time;
          shown = static_cast<double>(packet->duration) * tick;
        }
        ++out.frames;
      }
      av_packet_unref(packet.get());
    }
    check(result == AVERROR_EOF, "[video] cannot read {} after {} frames: {}", path_, out.frames,
          av::reason(result));
    out.seconds = out.frames == 0 ? 0.0 : last - first + (shown > 0 ? shown : interval());
  }

  /// Default duration of a frame; 0: unknown.
  [[nodiscard]] double interval() const {
    const double rate = stated_rate();
    return rate > 0 ? 1.0 / rate : 0.0;
  }

  /// Seconds since the first frame.
  double time_of(const AVFrame& frame, int64_t index) {
    const bool stamped = frame.best_effort_timestamp != AV_NOPTS_VALUE;
    const double stamp =
        static_cast<double>(frame.best_effort_timestamp) * av_q2d(stream_->time_base);
    if (index == 0) {
      first_time_ = stamped ? stamp : 0.0;
      return 0.0;
    }
    // Frames are in display order: time stamps that decrease are corruption.
    return std::max(shown_time_, stamped ? stamp - first_time_ : shown_time_ + interval());
  }

  double next_time() const {
    return static_cast<double>(options_.first_frame + kept_) / options_.fps;
  }

  /// With an output rate: outputs the current frame for each time that is due before the new frame.
  void show(av::Frame frame, int64_t index) {
    const double time = time_of(*frame, index);
    while (shown_ != nullptr && kept_ < options_.max_frames && next_time() + kTimeSlack < time) {
      append(*shown_, index - 1);
    }
    shown_time_ = time;
    const double tick = av_q2d(stream_->time_base);
    const int64_t ticks = av::duration(*frame);
    shown_for_ = ticks > 0 ? static_cast<double>(ticks) * tick : interval();
    shown_ = std::move(frame);
  }

  /// Outputs the last frame until its end; one more frame time for containers that round up.
  void hold_last() {
    if (shown_ == nullptr) {
      return;
    }
    const bool endless = options_.max_frames == std::numeric_limits<int64_t>::max();
    const double end = shown_time_ + shown_for_ + (endless ? 0.0 : 1.0 / options_.fps);
    while (kept_ < options_.max_frames && next_time() + kTimeSlack < end) {
      append(*shown_, seen_ - 1);
    }
  }

  void send(const AVPacket* packet) {
    const int sent = avcodec_send_packet(codec_.get(), packet);
    check(sent >= 0 || sent == AVERROR_EOF, "[video] cannot decode {} after {} frames: {}", path_,
          seen_, av::reason(sent));
    const av::Frame frame(av_frame_alloc());
    check(frame != nullptr, "[video] out of memory");
    while (kept_ < options_.max_frames) {
      const int result = avcodec_receive_frame(codec_.get(), frame.get());
      if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) {
        return;
      }
      check(result >= 0, "[video] cannot decode {} after {} frames: {}", path_, seen_,
            av::reason(result));
      check(frame->decode_error_flags == 0 && (frame->flags & AV_FRAME_FLAG_CORRUPT) == 0,
            "[video] frame {} of {} is corrupt", seen_, path_);
      const int64_t index = seen_++;
      if (index == 0) {
        choose_tone_map(*frame);
      }
      if (options_.fps > 0) {
        show(av::Frame(av_frame_clone(frame.get())), index);
      } else if (index >= options_.first_frame &&
                 (index - options_.first_frame) % std::max<int64_t>(1, options_.stride) == 0) {
        append(*frame, index);
      }
      av_frame_unref(frame.get());
    }
  }

  void append(const AVFrame& frame, int64_t index) {
    if (kept_ == 0) {
      height_ = frame.height;
      width_ = frame.width;
      const int stated = stated_orientation(frame);
      orientation_ = stated == 1 ? stored_orientation_ : stated;
      pixel_aspect_ = pixel_aspect(const_cast<AVFrame*>(&frame));
      const AVPixFmtDescriptor* about =
          av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
      has_alpha_ = about != nullptr && (about->flags & AV_PIX_FMT_FLAG_ALPHA) != 0;
    }
    check(frame.height == height_ && frame.width == width_,
          "[video] {} changes its size at frame {}: {}x{} to {}x{} (height x width)", path_, index,
          height_, width_, frame.height, frame.width);
    const int64_t bytes = height_ * width_ * 3;
    check(bytes <= options_.max_bytes - kept_ * bytes,
          "[video] {} needs more than {} bytes when decoded; read fewer frames or smaller ones",
          path_, options_.max_bytes);
    // Each chroma sample is used for its 2x2 block, as in the usual readers of training data;
    // interpolation would change colours at edges by tens of levels.
    const AVPixelFormat format = wanted_format(frame);
    SwsContext* scaler = scaler_.release();
    scaler_.reset(sws_getCachedContext(
        scaler, frame.width, frame.height, static_cast<AVPixelFormat>(frame.format), frame.width,
        frame.height, format, SWS_POINT | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT, nullptr, nullptr,
        nullptr));
    check(scaler_ != nullptr, "[video] {} has a pixel format that cannot be converted", path_);
    const int* matrix = coefficients(frame);
    sws_setColorspaceDetails(scaler_.get(), matrix, is_full_range(frame) ? 1 : 0, matrix, 1, 0,
                             1 << 16, 1 << 16);
    // swscale writes whole vectors: separate padded rows keep it inside the memory.
    constexpr int64_t kWidestPixel = 8;
    const int64_t pixel_bytes = format == AV_PIX_FMT_RGB24  ? 3
                                : format == AV_PIX_FMT_RGBA ? 4
                                                            : kWidestPixel;
    stride_ = (width_ * pixel_bytes + 127) / 64 * 64;
    row_buffer_.resize(static_cast<size_t>(stride_ * height_ + 64));
    uint8_t* planes[4] = {row_buffer_.data(), nullptr, nullptr, nullptr};
    const int strides[4] = {static_cast<int>(stride_), 0, 0, 0};
    const int rows =
        sws_scale(scaler_.get(), frame.data, frame.linesize, 0, frame.height, planes, strides);
    check(rows == frame.height, "[video] frame {} of {} cannot be converted", index, path_);
    const size_t at = rgb_.size();
    rgb_.resize(at + static_cast<size_t>(bytes));
    for (int64_t y = 0; y < height_; ++y) {
      auto* to = reinterpret_cast<uint8_t*>(rgb_.data() + at) + y * width_ * 3;
      finish_row(format, row_buffer_.data() + y * stride_, {to, static_cast<size_t>(width_ * 3)});
    }
    ++kept_;
  }

  const std::string& path_;
  const ReadVideoOptions& options_;
  Input input_;
  AVStream* stream_ = nullptr;
  av::Codec codec_;
  av::Scaler scaler_;
  std::vector<uint8_t> row_buffer_;
  std::vector<std::byte> rgb_;
  int64_t stride_ = 0;
  int64_t height_ = 0;
  int64_t width_ = 0;
  int64_t seen_ = 0;     // frames decoded
  int64_t kept_ = 0;     // of them, kept
  int orientation_ = 1;  // see stated_orientation
  int stored_orientation_ = 1;
  bool has_alpha_ = false;
  std::optional<ToneMap> map_;  // of HDR
  int64_t skipped_ = 0;         // packets that the container marks as not displayed
  double pixel_aspect_ = 1;
  // With an output rate: the current frame, its start and duration in seconds.
  av::Frame shown_;
  double first_time_ = 0;
  double shown_time_ = 0;
  double shown_for_ = 0;
};

}  // namespace

Video decode(std::span<const std::byte> bytes, const std::string& name, const char* formats,
             const ReadVideoOptions& options) {
  return Decoder(bytes, name, formats, options).run();
}

VideoProbe probe_video(const std::filesystem::path& path) {
  const io::MappedFile file = io::MappedFile::open(path);
  return probe_video(file.bytes(), file.path());
}

VideoProbe probe_video(std::span<const std::byte> bytes, const std::string& name) {
  const ReadVideoOptions options;
  return Decoder(bytes, name, kVideoFormats, options).probe();
}

Video read_video(std::span<const std::byte> bytes, const std::string& name,
                 const ReadVideoOptions& options) {
  return decode(bytes, name, kVideoFormats, options);
}

Video read_video(const std::filesystem::path& path, const ReadVideoOptions& options) {
  const io::MappedFile file = io::MappedFile::open(path);
  return read_video(file.bytes(), file.path(), options);
}

}  // namespace kinema::media
