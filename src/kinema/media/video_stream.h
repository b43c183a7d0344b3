#pragma once

// Private to the module: a video stream of a file in memory, through libav.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kinema/media/av.h"
#include "kinema/media/video.h"

namespace kinema::media {

/// True if pixels of libav's format may be transparent: with an alpha channel, or with a palette.
bool may_be_transparent(int format);

/// The first video stream of a file, and what its container says of it.
class VideoStream {
 public:
  /// Opens the bytes, with the name `path` in messages; `formats` lists the demuxers to try. Throws
  /// an Error for bytes that are no video or picture, incomplete, or without a decoder. The bytes
  /// and the name must outlive the stream.
  VideoStream(std::span<const std::byte> bytes, const std::string& path, const char* formats);
  VideoStream(const VideoStream&) = delete;
  VideoStream& operator=(const VideoStream&) = delete;
  ~VideoStream();

  const AVStream& stream() const { return *stream_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  /// A decoder for pictures of at most `max_pixels` pixels.
  av::Codec open_decoder(int64_t max_pixels) const;
  /// The next packet of any stream; libav's error code.
  int read(AVPacket& packet) { return av_read_frame(format_, &packet); }

  /// Size, rate, length and colors. Reads all packets if the container does not state the number of
  /// frames or the duration: call it once, and nothing after it.
  VideoProbe probe();
  /// Frames per second; 0: unknown.
  double stated_rate() const;
  /// Default duration of a frame in seconds; 0: unknown.
  double interval() const;
  /// Seconds of a tick of the stream's time stamps.
  double tick() const { return av_q2d(stream_->time_base); }
  /// Width over height of a displayed pixel after rotation; implausible values become 1. `frame`
  /// may state another than the stream.
  double pixel_aspect(AVFrame* frame) const;
  /// The display rotation (phones store upright videos rotated), as an Exif orientation.
  int display_orientation() const;

 private:
  static int read_bytes(void* self, uint8_t* out, int size);
  static int64_t seek(void* self, int64_t offset, int whence);
  bool has_alpha_beside() const;
  bool has_alpha() const;
  const AVCodec* with_alpha(const AVCodec* codec) const;
  void count_packets(VideoProbe& out);
  void close();

  const std::string& path_;
  std::span<const std::byte> bytes_;
  int64_t position_ = 0;
  AVIOContext* io_ = nullptr;
  AVFormatContext* format_ = nullptr;
  AVStream* stream_ = nullptr;
  const AVCodec* codec_ = nullptr;
};

}  // namespace kinema::media
