#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/source.h"

namespace kinema::data {

/// One clip and what is said of it.
struct CaptionedClip {
  std::filesystem::path path;
  std::string caption;
  std::string problem;  // why it cannot be used; only where list_clips was to keep such clips
};

/// What list_clips does about a clip that is not there or has no caption.
enum class MissingClip : uint8_t { Fail, Keep };

/// Clips of a folder: from `metadata.jsonl` or `metadata.csv` (`file_name` and the caption under
/// `caption_column`), else every mp4 with a `.txt` of the same name. Throws an Error that names
/// file and line for a wrong caption file and, unless it is to be kept with the reason as its
/// `problem`, for a clip that is not there.
std::vector<CaptionedClip> list_clips(const std::filesystem::path& folder,
                                      const std::string& caption_column = "text",
                                      MissingClip missing = MissingClip::Fail);

/// Which frames of a clip, and the size they are brought to.
struct ClipFormat {
  int64_t height = 480;
  int64_t width = 832;
  int64_t num_frames = 81;
  /// Every n-th frame of the file.
  int64_t frame_stride = 1;
};

/// A clip's pixels, f32 [3, num_frames, height, width] in [-1, 1], by fit_frames. The frames begin
/// at `place` of what the clip has to spare, from 0 (its beginning) to 1; without one, they are its
/// middle. Throws an Error with the path for a clip that cannot be decoded or is too short.
HostArray read_clip(const std::filesystem::path& path, const ClipFormat& format,
                    std::optional<float> place = std::nullopt);

/// A clip after decoding, resizing and cropping.
struct Clip {
  HostArray pixels;  // f32 [3, f, h, w] in [-1, 1]
  std::string caption;
  std::string id;
  int64_t index = 0;     // into list_clips
  int64_t position = 0;  // in the source's order
};

/// Pixels and caption to latents and text states.
struct Encoded {
  HostArray latents;                // [c, f, h, w]
  HostArray encoder_hidden_states;  // [t, d]
};
using EncodeClip = std::function<Encoded(const Clip&)>;

enum class BadClip : uint8_t { Fail, Skip };

struct VideoOptions {
  std::filesystem::path folder;
  std::string caption_column = "text";
  /// Only the first so many clips of the list; negative: all.
  int64_t max_samples = -1;
  int64_t height = 480;
  int64_t width = 832;
  int64_t num_frames = 81;
  /// Every n-th frame of the file.
  int64_t frame_stride = 1;
  /// Start of the window: false takes the middle, true a place chosen by (seed, position).
  bool random_start = false;
  bool random_flip = false;
  bool shuffle = true;
  uint64_t seed = 0;
  /// Fail: a clip that cannot be decoded or is too short is an Error. Skip: the next one stands in.
  BadClip bad_clip = BadClip::Fail;
  /// Told of each clip skipped, once, with the reason; called from any thread, one call at a time.
  std::function<void(const std::string&)> on_skip;
  /// Encode each clip once and keep what comes of it, up to so many bytes; 0: encode every time.
  /// Has no effect with random_start, where a clip is another one each time.
  int64_t cache_bytes = int64_t{1} << 30;
};

/// Videos with captions, encoded by `encode` (called from many threads).
std::unique_ptr<Source> video_source(const VideoOptions& options, EncodeClip encode);

/// Frames u8 [f, h, w, 3] scaled to cover height x width (antialiased bilinear), cropped to the
/// middle, as f32 [3, f, height, width] in [-1, 1].
HostArray fit_frames(const HostArray& frames, int64_t height, int64_t width);

}  // namespace kinema::data
