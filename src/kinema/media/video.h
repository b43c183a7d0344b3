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
  double fps = 0;           // as stated in the file
  double pixel_aspect = 1;  // width over height of a displayed pixel
  bool has_alpha = false;   // transparent parts show the background
  bool is_hdr = false;      // PQ or HLG, tone-mapped
};

/// Properties of a video stream without decoding it; if the container does not state them, its
/// packets are counted.
struct VideoProbe {
  int64_t frames = 0;
  int64_t height = 0;  // of the frames of read_video
  int64_t width = 0;
  double fps = 0;      // the average, if the rate is variable
  double seconds = 0;  // from the first frame to the end of the last one
  double pixel_aspect = 1;
  bool variable_rate = false;
  bool has_alpha = false;
  bool is_hdr = false;  // PQ or HLG
};
VideoProbe probe_video(const std::filesystem::path& path);
/// The same from bytes, with the name `name` in messages.
VideoProbe probe_video(std::span<const std::byte> bytes, const std::string& name);

struct ReadVideoOptions {
  /// Number of frames at the start that are decoded but not kept.
  int64_t first_frame = 0;
  /// After these, every n-th frame is kept.
  int64_t stride = 1;
  /// Above 0: frames at this rate instead of the file's, each the one that a player shows at that
  /// time (by the file's time stamps); first_frame counts these, and stride is ignored.
  double fps = 0;
  /// Stop after keeping this many frames.
  int64_t max_frames = std::numeric_limits<int64_t>::max();
  /// Throw an Error for larger frames (hostile headers claim gigapixels).
  int64_t max_pixels = int64_t{8192} * 8192;
  /// Throw an Error if the kept frames exceed this.
  int64_t max_bytes = int64_t{4} << 30;
  /// Shown behind transparent parts.
  Background background = {};
};

/// Decodes a video file (mp4, mov, mkv, webm, avi, gif, MPEG, wmv, flv, ogv and others, identified
/// by its bytes and not by its name; one video stream). YUV without a colour description is
/// limited-range BT.601; PQ and HLG are tone-mapped to SDR (BT.2390); the display rotation is
/// applied.
///
/// Throws an Error with the path for a missing, truncated, undecodable or too large file.
Video read_video(const std::filesystem::path& path, const ReadVideoOptions& options = {});
/// The same from bytes, with the name `name` in messages.
Video read_video(std::span<const std::byte> bytes, const std::string& name,
                 const ReadVideoOptions& options = {});

struct WriteMp4Options {
  double fps = 16;
  /// x264's constant rate factor: 0 lossless, 18 visually lossless, 51 worst.
  int crf = 18;
  std::string preset = "medium";
  /// `yuv420p` plays everywhere; `yuv444p` keeps colour edges of tiny frames.
  std::string pixel_format = "yuv420p";
  /// Each pixel becomes a square block (nearest), so that tiny videos can be seen.
  int enlarge = 1;
};

/// The result of write_mp4: odd sizes are padded by one repeated column or row, because 4:2:0 needs
/// even ones.
struct WrittenMp4 {
  int64_t height = 0;
  int64_t width = 0;
  bool padded = false;
};

/// Encodes u8 [f, h, w, 3] frames as H.264 in mp4 with the index in front; written to a temporary
/// name that is then renamed. Throws an Error if the shape is wrong or if the encoder or disk
/// fails.
WrittenMp4 write_mp4(const std::filesystem::path& path, const HostArray& frames,
                     const WriteMp4Options& options = {});

struct GifOptions {
  double fps = 16;
  /// Each pixel becomes a square of this many pixels per side.
  int enlarge = 1;
};

/// u8 [f, h, w, 3] frames as an endlessly repeating GIF, with 256 colours for all frames; the delay
/// between frames is rounded to a hundredth of a second. Throws an Error if the shape is wrong or
/// larger than a GIF allows.
std::string encode_gif(const HostArray& frames, const GifOptions& options = {});

}  // namespace kinema::media
