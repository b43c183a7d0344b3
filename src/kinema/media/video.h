#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/media/background.h"

namespace kinema::media {

/// Decoded frames: u8 [f, h, w, 3], RGB.
struct Video {
  HostArray frames;
  double fps = 0;           // as the file states it
  double pixel_aspect = 1;  // width over height of a pixel as it is to be shown
  bool has_alpha = false;   // what was transparent shows the background
  bool is_hdr = false;      // PQ or HLG, tone-mapped
};

/// What is known of a video stream without decoding it; where the container does not say, its
/// packets are counted.
struct VideoProbe {
  int64_t frames = 0;
  int64_t height = 0;  // of the frames as read_video gives them
  int64_t width = 0;
  double fps = 0;      // on the average, where the rate is variable
  double seconds = 0;  // from the first frame to the end of the last one
  double pixel_aspect = 1;
  bool variable_rate = false;
  bool has_alpha = false;
  bool is_hdr = false;  // PQ or HLG
};
VideoProbe probe_video(const std::filesystem::path& path);
/// The same from bytes, which messages call `name`.
VideoProbe probe_video(std::span<const std::byte> bytes, const std::string& name);

struct ReadVideoOptions {
  /// Frames decoded but not kept at the start.
  int64_t first_frame = 0;
  /// Of the rest, every n-th is kept.
  int64_t stride = 1;
  /// Above 0: frames of this rate in place of the file's, each the one that a player shows at that
  /// time (the file's time stamps decide); first_frame counts them, stride has no meaning.
  double fps = 0;
  /// Stop after keeping this many frames.
  int64_t max_frames = std::numeric_limits<int64_t>::max();
  /// Refuse larger frames (hostile headers claim gigapixels).
  int64_t max_pixels = int64_t{8192} * 8192;
  /// Refuse when the frames kept would exceed this.
  int64_t max_bytes = int64_t{4} << 30;
  /// What is seen through transparent parts.
  Background background = {};
};

/// Decodes a video file (mp4, mov, mkv, webm, avi, gif, MPEG, wmv, flv, ogv and what else people
/// keep films in, by its bytes and not by its name; one video stream). YUV without a colour
/// description is taken as limited-range BT.601; PQ and HLG are tone-mapped to SDR (BT.2390); a
/// rotation that the file asks of players is made.
///
/// Throws an Error with the path for a missing, truncated, undecodable or too large file.
Video read_video(const std::filesystem::path& path, const ReadVideoOptions& options = {});
/// The same from bytes, which messages call `name`.
Video read_video(std::span<const std::byte> bytes, const std::string& name,
                 const ReadVideoOptions& options = {});

struct WriteMp4Options {
  double fps = 16;
  /// x264's constant rate factor: 0 lossless, 18 visually lossless, 51 worst.
  int crf = 18;
  std::string preset = "medium";
  /// `yuv420p` plays everywhere; `yuv444p` keeps colour edges of tiny frames.
  std::string pixel_format = "yuv420p";
  /// Each frame repeated to a square block of pixels (nearest), so that tiny videos can be looked
  /// at.
  int enlarge = 1;
};

/// What write_mp4 made: odd sizes are padded by one repeated column or row, since 4:2:0 needs even.
struct WrittenMp4 {
  int64_t height = 0;
  int64_t width = 0;
  bool padded = false;
};

/// Encodes u8 [f, h, w, 3] frames as H.264 in mp4 with the index in front; written beside `path`
/// and renamed. Throws an Error when the shape is wrong or the encoder or disk refuses.
WrittenMp4 write_mp4(const std::filesystem::path& path, const HostArray& frames,
                     const WriteMp4Options& options = {});

struct GifOptions {
  double fps = 16;
  /// Each pixel becomes a square of this many a side.
  int enlarge = 1;
};

/// u8 [f, h, w, 3] frames as an animated GIF that goes round and round, with 256 colours for all of
/// them; the delay between frames is to a hundredth of a second. Throws an Error when the shape is
/// wrong or larger than a GIF may be.
std::string encode_gif(const HostArray& frames, const GifOptions& options = {});

}  // namespace kinema::media
