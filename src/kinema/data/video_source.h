#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/data/buckets.h"
#include "kinema/data/clip_file.h"
#include "kinema/data/clip_list.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/source.h"

namespace kinema::data {

/// A clip after decoding, resizing and cropping.
struct Clip {
  int64_t number = 0;       // in its set
  HostArray pixels;         // f32 [3, f, h, w] in [-1, 1]
  HostArray size_ids = {};  // f32 [6] (picture_sizes.h), where they were asked for
  std::string caption;
  std::string id;
};

/// Makes a sample of pixels and caption; its name is given to it afterwards.
using EncodeClip = std::function<Sample(const Clip&)>;

/// Where clips are found that were encoded before: by number, in a format, mirrored or not. Throws
/// an Error that names the clip when it is not there.
using FindEncoded = std::function<Sample(int64_t clip, const ClipFormat& format, bool flipped)>;

enum class BadClip : uint8_t { Fail, Skip };

struct VideoOptions {
  /// Only the first so many clips; negative: all.
  int64_t max_samples = -1;
  ClipFormat format;
  /// Clips are brought to the sizes of their buckets, and every `batch` samples are of one bucket;
  /// those without a bucket are left out. None: all have the format's size.
  ClipBuckets buckets = {};
  int64_t batch = 1;
  /// Start of the window: false takes the middle, true a place chosen by (seed, position).
  bool random_start = false;
  /// Frames of another shape than the format's are cropped: true takes the middle, false a place
  /// chosen by (seed, position).
  bool center_crop = true;
  bool random_flip = false;
  /// Clips come with their sizes.
  bool sizes = false;
  bool shuffle = true;
  uint64_t seed = 0;
  /// Clips known to be unusable (Survey::problems): by clip, empty for one that can be used. They
  /// are no part of an epoch.
  std::vector<std::string> problems = {};
  /// Fail: a clip that cannot be decoded or is too short is an Error. Skip: another one, chosen by
  /// (seed, position), is read in its place.
  BadClip bad_clip = BadClip::Fail;
  /// Told of each clip skipped, once, with the reason; called from any thread, one call at a time.
  std::function<void(int64_t clip, const std::string& reason)> on_skip;
  /// Encode each clip once and keep what comes of it, up to so many bytes; 0: encode every time.
  /// Has no effect where a clip is another one each time.
  int64_t cache_bytes = int64_t{1} << 30;

  /// True where a clip is another one each time it is read, mirroring aside.
  bool varies() const { return random_start || !center_crop; }
};

/// Clips, encoded by `encode` (called from many threads).
std::unique_ptr<Source> video_source(std::shared_ptr<const ClipSet> clips,
                                     const VideoOptions& options, EncodeClip encode);

/// Clips that were encoded before, in the same order as if they were encoded now; nothing is kept
/// in memory. Throws an Error where clips vary.
std::unique_ptr<Source> encoded_source(std::shared_ptr<const ClipSet> clips,
                                       const VideoOptions& options, FindEncoded find);

/// The pixels with every row turned round, as random_flip gives them.
HostArray flipped(const HostArray& pixels);

/// The clip's first frame as an image, u8 [h, w, 3]: what a video of it would be made from.
HostArray first_frame(const HostArray& pixels);

}  // namespace kinema::data
