#include "kinema/media/video_stream.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/file_format.h"
#include "kinema/media/image.h"
#include "kinema/media/matroska.h"
#include "kinema/media/media_name.h"
#include "kinema/media/orientation.h"
#include "kinema/media/tone_map.h"

namespace kinema::media {
namespace {

constexpr int kIoBufferBytes = 64 * 1024;

int refuse_to_open(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) {
  return AVERROR(EPERM);
}

}  // namespace

bool may_be_transparent(int format) {
  const AVPixFmtDescriptor* about = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(format));
  return about != nullptr && (about->flags & (AV_PIX_FMT_FLAG_ALPHA | AV_PIX_FMT_FLAG_PAL)) != 0;
}

VideoStream::VideoStream(std::span<const std::byte> bytes, const std::string& path,
                         const char* formats)
    : path_(path), bytes_(bytes) {
  check(!bytes.empty(), "[video] {} is empty", path_);
  const uint64_t whole = matroska_bytes(bytes);  // libav accepts an incomplete file
  check(bytes.size() >= whole, "[video] {} is truncated: {} of {} bytes", path_, bytes.size(),
        whole);
  av::silence();
  // No URL is ever parsed, so a name cannot select a protocol.
  auto* buffer = static_cast<unsigned char*>(av_malloc(kIoBufferBytes));
  io_ = avio_alloc_context(buffer, kIoBufferBytes, 0, this, &VideoStream::read_bytes, nullptr,
                           &VideoStream::seek);
  format_ = avformat_alloc_context();
  try {
    check(io_ != nullptr && format_ != nullptr, "[video] out of memory");
    format_->pb = io_;
    format_->flags |= AVFMT_FLAG_CUSTOM_IO;
    format_->io_open = refuse_to_open;  // files must not open other files
    AVDictionary* settings = nullptr;
    av_dict_set(&settings, "format_whitelist", formats, 0);
    const int opened = avformat_open_input(&format_, nullptr, nullptr, &settings);
    av_dict_free(&settings);
    const io::FileFormat is = io::file_format(bytes);
    check(opened >= 0 || !is || is.is_media, "[video] {}",
          io::wrong_format_text(path_, is, "a video"));
    check(opened >= 0, "[video] cannot read {}: {} (is it truncated, or not a {}?)", path_,
          av::reason(opened), is_image(bytes) || is_image_name(path_) ? "picture" : "video");
    const int found = avformat_find_stream_info(format_, nullptr);
    check(found >= 0, "[video] cannot read {}: {}", path_, av::reason(found));
    const AVCodec* codec = nullptr;
    const int stream = av_find_best_stream(format_, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
    check(stream >= 0 && codec != nullptr, "[video] {} has no video stream that can be decoded",
          path_);
    stream_ = format_->streams[stream];
    codec_ = with_alpha(codec);
  } catch (...) {
    close();
    throw;
  }
}

VideoStream::~VideoStream() { close(); }

void VideoStream::close() {
  avformat_close_input(&format_);
  if (io_ != nullptr) {
    av_freep(&io_->buffer);
    avio_context_free(&io_);
  }
}

int VideoStream::read_bytes(void* self, uint8_t* out, int size) {
  auto& in = *static_cast<VideoStream*>(self);
  const auto left = static_cast<int64_t>(in.bytes_.size()) - in.position_;
  if (left <= 0 || size <= 0) {
    return AVERROR_EOF;
  }
  const auto n = std::min<int64_t>(left, size);
  std::memcpy(out, in.bytes_.data() + in.position_, static_cast<size_t>(n));
  in.position_ += n;
  return static_cast<int>(n);
}

int64_t VideoStream::seek(void* self, int64_t offset, int whence) {
  auto& in = *static_cast<VideoStream*>(self);
  const auto size = static_cast<int64_t>(in.bytes_.size());
  switch (whence & ~AVSEEK_FORCE) {
    case AVSEEK_SIZE:
      return size;
    case SEEK_SET:
      break;
    case SEEK_CUR:
      offset += in.position_;
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
  return in.position_ = offset;
}

av::Codec VideoStream::open_decoder(int64_t max_pixels) const {
  av::Codec out(avcodec_alloc_context3(codec_));
  check(out != nullptr && avcodec_parameters_to_context(out.get(), stream_->codecpar) >= 0,
        "[video] {} has parameters that cannot be decoded", path_);
  out->max_pixels = max_pixels;
  out->thread_count = 1;  // files are decoded in parallel, on the reader's threads
  out->err_recognition = AV_EF_EXPLODE | AV_EF_CAREFUL;
  const int ready = avcodec_open2(out.get(), codec_, nullptr);
  check(ready >= 0, "[video] cannot decode {}: {}", path_, av::reason(ready));
  return out;
}

VideoProbe VideoStream::probe() {
  VideoProbe out;
  out.height = stream_->codecpar->height;
  out.width = stream_->codecpar->width;
  out.pixel_aspect = pixel_aspect(nullptr);
  out.has_alpha = has_alpha();
  out.is_hdr = transfer_of(stream_->codecpar->color_trc) != Transfer::Standard;
  if (lies_on_its_side(display_orientation())) {
    std::swap(out.height, out.width);
  }
  out.fps = stated_rate();
  out.frames = stream_->nb_frames;
  out.seconds = static_cast<double>(stream_->duration) * tick();
  if (out.frames <= 0 || stream_->duration <= 0) {
    count_packets(out);
  }
  const auto frames = static_cast<double>(out.frames);
  // A stated rate that does not match the frames, as in videos of variable rate, is ignored.
  if (out.seconds > 0 && std::abs(out.fps * out.seconds - frames) > 1.5 + 0.02 * frames) {
    out.fps = frames / std::max(out.seconds, 1e-9);
    out.variable_rate = true;
  }
  return out;
}

/// Counts frames and seconds of the packets, each of which is a frame.
void VideoStream::count_packets(VideoProbe& out) {
  const av::Packet packet(av_packet_alloc());
  check(packet != nullptr, "[video] out of memory");
  double first = 0;
  double last = 0;
  double shown = 0;  // duration of the last frame
  out.frames = 0;
  int result = 0;
  while ((result = read(*packet)) >= 0) {
    const bool hidden = (packet->flags & AV_PKT_FLAG_DISCARD) != 0;
    if (packet->stream_index == stream_->index && !hidden) {
      const int64_t stamp = packet->pts != AV_NOPTS_VALUE ? packet->pts : packet->dts;
      const double time = stamp != AV_NOPTS_VALUE ? static_cast<double>(stamp) * tick()
                          : out.frames == 0       ? 0.0
                                                  : last + interval();
      first = out.frames == 0 ? time : std::min(first, time);
      if (out.frames == 0 || time > last) {
        last = time;
        shown = static_cast<double>(packet->duration) * tick();
      }
      ++out.frames;
    }
    av_packet_unref(packet.get());
  }
  check(result == AVERROR_EOF, "[video] cannot read {} after {} frames: {}", path_, out.frames,
        av::reason(result));
  out.seconds = out.frames == 0 ? 0.0 : last - first + (shown > 0 ? shown : interval());
}

double VideoStream::stated_rate() const {
  const AVRational rate = av_guess_frame_rate(format_, stream_, nullptr);
  return rate.num > 0 && rate.den > 0 ? av_q2d(rate) : 0.0;
}

double VideoStream::interval() const {
  const double rate = stated_rate();
  return rate > 0 ? 1.0 / rate : 0.0;
}

double VideoStream::pixel_aspect(AVFrame* frame) const {
  const AVRational stated = av_guess_sample_aspect_ratio(format_, stream_, frame);
  const double value = stated.num > 0 && stated.den > 0 ? av_q2d(stated) : 1.0;
  if (value < 0.1 || value > 10) {
    return 1.0;
  }
  return lies_on_its_side(display_orientation()) ? 1.0 / value : value;
}

int VideoStream::display_orientation() const {
  size_t size = 0;
  const uint8_t* data = av_stream_get_side_data(stream_, AV_PKT_DATA_DISPLAYMATRIX, &size);
  if (data == nullptr || size < 9 * sizeof(int32_t)) {
    return 1;
  }
  int32_t matrix[9];
  std::memcpy(matrix, data, sizeof(matrix));
  return matrix_orientation(matrix[0], matrix[1], matrix[3], matrix[4]);
}

/// As marked in WebM.
bool VideoStream::has_alpha_beside() const {
  const AVDictionaryEntry* mode = av_dict_get(stream_->metadata, "alpha_mode", nullptr, 0);
  return mode != nullptr && std::strcmp(mode->value, "1") == 0;
}

/// From the headers. libav's GIF decoder gives all frames an alpha channel: the block before the
/// first picture (GIF89a, 23) states whether there is a transparent colour.
bool VideoStream::has_alpha() const {
  if (stream_->codecpar->codec_id != AV_CODEC_ID_GIF) {
    return has_alpha_beside() || may_be_transparent(stream_->codecpar->format);
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()),
                              std::min<size_t>(bytes_.size(), 4096));
  const size_t at = text.find("\x21\xf9\x04");
  return at != std::string_view::npos && at + 3 < text.size() && (text[at + 3] & 1) != 0;
}

/// libav's decoders of VP8 and VP9 ignore WebM's separate alpha channel; libvpx's decode it.
const AVCodec* VideoStream::with_alpha(const AVCodec* codec) const {
  if (!has_alpha_beside()) {
    return codec;
  }
  const char* name = codec->id == AV_CODEC_ID_VP9   ? "libvpx-vp9"
                     : codec->id == AV_CODEC_ID_VP8 ? "libvpx"
                                                    : "";
  const AVCodec* other = avcodec_find_decoder_by_name(name);
  return other == nullptr ? codec : other;
}

}  // namespace kinema::media
