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
#include "kinema/data/caption_rules.h"
#include "kinema/data/clip_file.h"
#include "kinema/data/clip_list.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/source.h"
#include "kinema/data/training_mask.h"

namespace kinema::data {

/// A clip after decoding, resizing and cropping.
struct Clip {
  int64_t number = 0;  // in its set
  HostArray pixels;    // f32 [3, f, h, w] in [-1, 1]
  ClipControl control = {};
  HostArray size_ids = {};  // f32 [6] (picture_sizes.h), if requested
  std::string caption;
  std::string id;
};

/// Encodes pixels and caption as a sample; the caller sets the sample's id.
using EncodeClip = std::function<Sample(const Clip&)>;

/// Finds a clip's cached encoding: by number, in a format, mirrored or not, with a variant of its
/// caption. Throws an Error with the clip's name if it does not exist.
using FindEncoded = std::function<Sample(int64_t clip, const ClipFormat& format, bool flipped,
                                         int64_t caption_variant)>;

enum class BadClip : uint8_t { Fail, Skip };

struct VideoOptions {
  /// Only the first `max_samples` clips; negative: all.
  int64_t max_samples = -1;
  ClipFormat format;
  /// Clips are resized to their buckets, and every `batch` samples have the same bucket; clips
  /// without a bucket are skipped. None: all have the format's size.
  ClipBuckets buckets = {};
  int64_t batch = 1;
  /// Start of the window: false is the middle, true a position chosen by (seed, position).
  bool random_start = false;
  /// Crop of frames with another aspect ratio: true is the middle, false a position chosen by
  /// (seed, position).
  bool center_crop = true;
  bool random_flip = false;
  /// Change the colours of some samples (color_change.h), chosen by (seed, position).
  bool color_change = false;
  /// Transparent parts of pictures do not count in the loss.
  bool alpha_mask = false;
  /// Clips without a mask of their own get one of these kinds, chosen by (seed, position).
  std::vector<MaskKind> mask_kinds = {};
  /// Variants of captions, one of which is chosen by (seed, position).
  CaptionRules captions = {};
  /// Clips have size_ids.
  bool sizes = false;
  bool shuffle = true;
  uint64_t seed = 0;
  /// Problems of clips (Survey::problems): by clip, empty for usable ones. Clips with problems are
  /// not part of an epoch.
  std::vector<std::string> problems = {};
  /// Fail: a clip that cannot be decoded or is too short is an Error. Skip: another one, chosen by
  /// (seed, position), replaces it.
  BadClip bad_clip = BadClip::Fail;
  /// Called once for each skipped clip, with the reason; from any thread, one call at a time.
  std::function<void(int64_t clip, const std::string& reason)> on_skip;
  /// Encode each clip once and cache the result, up to this many bytes; 0: encode every time. Has
  /// no effect if a clip is different each time.
  int64_t cache_bytes = int64_t{1} << 30;

  /// True if a clip is different each time it is read, apart from mirroring.
  bool varies() const {
    return random_start || !center_crop || color_change || !mask_kinds.empty();
  }
};

/// Clips encoded by `encode` (called from many threads).
std::unique_ptr<Source> video_source(std::shared_ptr<const ClipSet> clips,
                                     const VideoOptions& options, EncodeClip encode);

/// Cached encodings, in the same order as video_source; nothing is kept in memory. Throws an Error
/// if clips vary.
std::unique_ptr<Source> encoded_source(std::shared_ptr<const ClipSet> clips,
                                       const VideoOptions& options, FindEncoded find);

/// True if some samples of a clip are mirrored: by its set's rule, or else the run's.
bool flips(const ClipSet& clips, int64_t clip, bool run);

/// True if the colours of a clip change: by its set's rule, or else the run's.
bool changes_colors(const ClipSet& clips, int64_t clip, bool run);

/// The pixels (or a mask) with every row reversed, as with random_flip.
HostArray flipped(const HostArray& pixels);
/// The same of control frames and their masks; references stay.
ClipControl flipped(ClipControl control);

/// A frame of a clip as an image, u8 [h, w, 3], for image-to-video.
HostArray frame(const HostArray& pixels, int64_t index);

}  // namespace kinema::data
