#include "kinema/media/decode.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/frame_to_rgb.h"
#include "kinema/media/orientation.h"
#include "kinema/media/png_chunk.h"
#include "kinema/media/video_stream.h"

namespace kinema::media {
namespace {

// Video containers, by libav's names. Formats that refer to other files (playlists, scripts that
// join clips) are excluded.
constexpr const char* kVideoFormats =
    "mov,matroska,webm,avi,mpegts,mpeg,gif,asf,flv,ogg,ivf,yuv4mpegpipe";

// Time stamps of containers may have a precision of a millisecond: a frame that is
// late by less than this is used.
constexpr double kTimeSlack = 1e-3;

// How a camera was held, as Exif (CIPA DC-008, tag 0x0112) says it: 1 upright; 2 to 8 otherwise.
int stated_orientation(const AVFrame& frame) {
  const AVDictionaryEntry* entry = av_dict_get(frame.metadata, "Orientation", nullptr, 0);
  const int value = entry == nullptr ? 1 : std::atoi(entry->value);
  return value >= 1 && value <= 8 ? value : 1;
}

/// Decodes the frames of a video stream, or those at the times of another rate.
class Decoder {
 public:
  Decoder(std::span<const std::byte> bytes, const std::string& name, const char* formats,
          const ReadVideoOptions& options)
      : path_(name),
        options_(options),
        stream_(bytes, name, formats),
        info_(stream_.stream()),
        codec_(stream_.open_decoder(options.max_pixels)),
        to_rgb_(name, options.background),
        stored_orientation_(png_orientation(bytes)) {}

  Video run() {
    const av::Packet packet(av_packet_alloc());
    check(packet != nullptr, "[video] out of memory");
    while (kept_ < options_.max_frames) {
      const int result = stream_.read(*packet);
      if (result == AVERROR_EOF) {
        send(nullptr);
        break;
      }
      check(result >= 0, "[video] cannot read {} after {} frames: {}", path_, seen_,
            av::reason(result));
      if (packet->stream_index == info_.index) {
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
    check(kept_ >= options_.max_frames || info_.nb_frames <= seen_ + skipped_,
          "[video] {} is truncated: {} of {} frames", path_, seen_, info_.nb_frames);
    HostArray frames;
    frames.shape = {DType::U8, {kept_, height_, width_, 3}};
    frames.bytes = std::move(rgb_);
    frames = upright(upright(std::move(frames), stream_.display_orientation()), orientation_);
    return {std::move(frames), stream_.stated_rate(), pixel_aspect_, has_alpha_, to_rgb_.is_hdr()};
  }

 private:
  /// Seconds since the first frame.
  double time_of(const AVFrame& frame, int64_t index) {
    const bool stamped = frame.best_effort_timestamp != AV_NOPTS_VALUE;
    const double stamp = static_cast<double>(frame.best_effort_timestamp) * stream_.tick();
    if (index == 0) {
      first_time_ = stamped ? stamp : 0.0;
      return 0.0;
    }
    // Frames are in display order: time stamps that decrease are corruption.
    return std::max(shown_time_, stamped ? stamp - first_time_ : shown_time_ + stream_.interval());
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
    const double tick = stream_.tick();
    const int64_t ticks = av::duration(*frame);
    shown_for_ = ticks > 0 ? static_cast<double>(ticks) * tick : stream_.interval();
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
        to_rgb_.choose_tone_map(*frame, info_, stream_.bytes());
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
      pixel_aspect_ = stream_.pixel_aspect(const_cast<AVFrame*>(&frame));
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
    const size_t at = rgb_.size();
    rgb_.resize(at + static_cast<size_t>(bytes));
    to_rgb_.convert(frame, index, std::span(rgb_).subspan(at));
    ++kept_;
  }

  const std::string& path_;
  const ReadVideoOptions& options_;
  VideoStream stream_;
  const AVStream& info_;
  av::Codec codec_;
  FrameToRgb to_rgb_;
  std::vector<std::byte> rgb_;
  int64_t height_ = 0;
  int64_t width_ = 0;
  int64_t seen_ = 0;            // frames decoded
  int64_t kept_ = 0;            // of them, kept
  int orientation_ = 1;         // see stated_orientation
  int stored_orientation_ = 1;  // of a PNG, which libav does not read
  bool has_alpha_ = false;
  int64_t skipped_ = 0;  // packets that the container marks as not displayed
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
  VideoStream stream(bytes, name, kVideoFormats);
  stream.open_decoder(ReadVideoOptions{}.max_pixels);  // throws an Error for what cannot be decoded
  return stream.probe();
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
