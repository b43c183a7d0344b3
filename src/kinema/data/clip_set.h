#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/data/caption_rules.h"
#include "kinema/media/background.h"

namespace kinema::data {

struct SetRules;  // set_rules.h

/// The frames of a clip that are used, and their size.
struct ClipFormat {
  int64_t height = 480;
  int64_t width = 832;
  int64_t num_frames = 81;
  /// Every n-th frame of the file.
  int64_t frame_stride = 1;
  /// Above 0: frames per second, by the file's time stamps; frame_stride is then ignored.
  double fps = 0;
  /// Fills transparent parts, before resampling.
  media::Background background = {};
};

/// The position of the part of a clip that is read: from 0 (start; left or top edge) to 1 of the
/// clip's spare frames, rows or columns; in the middle if absent.
struct ClipWindow {
  std::optional<float> start = std::nullopt;  // of the frames
  std::optional<float> crop = std::nullopt;   // of the spare columns or rows
};

/// Properties of a clip in its file's header.
struct ClipSize {
  int64_t frames = 0;
  int64_t height = 0;  // as displayed: upright, with square pixels
  int64_t width = 0;
  double fps = 0;          // 0: an image, or unknown
  double seconds = 0;      // 0: an image, or unknown
  bool has_alpha = false;  // an alpha channel, or a transparent colour
  bool is_hdr = false;     // PQ or HLG, tone-mapped when read
};

/// The files beside a clip from which a network makes it; without bytes if not given.
struct ClipControl {
  HostArray frames;  // f32 [3, f, h, w] in [-1, 1]: a picture to edit, or a control video
  HostArray mask;    // f32 [f, h, w] in [0, 1]: 1 where the clip is made, 0 where it is kept
  std::vector<HostArray> references;  // u8 [h, w, 3] of any sizes

  bool is_given() const { return !frames.bytes.empty() || !references.empty(); }
};

/// Files of a set's folder that are not clips, with the reason.
struct SkippedFile {
  std::string file;  // or a pattern for several files
  std::string reason;
  int64_t files = 1;
};

/// The reason for images if clips have several frames.
inline constexpr const char* kImageOfOneFrame = "an image, which num_frames=1 takes as a clip";

/// Clips with captions, by number; thread-safe.
class ClipSet {
 public:
  virtual ~ClipSet() = default;
  virtual int64_t size() const = 0;
  /// `clip_03.mp4`, for reports.
  virtual std::string name(int64_t clip) const = 0;
  /// The clip's path in its set, for lists: `videos/clip_03.mp4`, `data/train.parquet row 7`.
  virtual std::string where(int64_t clip) const = 0;
  /// The clip's name in Errors: the path of a file.
  virtual std::string path(int64_t clip) const { return name(clip); }
  /// A short reason why this clip cannot be used (`no caption`), by which clips are counted, if it
  /// is known without opening the clip; else empty.
  virtual std::string cause(int64_t /*clip*/) const { return ""; }
  /// Throws an Error with the clip's name if its caption cannot be read.
  virtual std::string caption(int64_t clip) const = 0;
  /// How the clip's caption varies; `rules` are those of the run.
  virtual CaptionRules caption_rules(int64_t /*clip*/, const CaptionRules& rules) const {
    return rules;
  }
  /// The number of captions of each clip.
  virtual int64_t caption_variants(const CaptionRules& rules) const { return rules.count(); }
  /// Throws an Error with the clip's name if it cannot be read.
  virtual ClipSize measure(int64_t clip) const = 0;
  /// f32 [3, num_frames, height, width] in [-1, 1], by fit_frames. Throws an Error with the clip's
  /// name if it cannot be decoded or is too short.
  virtual HostArray read(int64_t clip, const ClipFormat& format,
                         const ClipWindow& window) const = 0;
  /// How much each pixel counts in the loss, f32 [height, width] in [0, 1], resized and cropped as
  /// by read(): the red channel of the clip's mask file or, with `alpha`, the alpha channel of a
  /// picture. Without bytes if it has neither: all count. Throws an Error with the name of a mask
  /// that cannot be read, or whose aspect ratio is another than the clip's.
  virtual HostArray read_mask(int64_t /*clip*/, const ClipFormat& /*format*/,
                              const ClipWindow& /*window*/, bool /*alpha*/) const {
    return {};
  }
  /// The clip's control files: frames and masks of the clip's number, resized and cropped as by
  /// read(). Throws an Error with the name of one that cannot be read, or whose number of frames is
  /// another than the clip's.
  virtual ClipControl read_control(int64_t /*clip*/, const ClipFormat& /*format*/,
                                   const ClipWindow& /*window*/) const {
    return {};
  }
  /// True if some clips have control files.
  virtual bool has_controls() const { return false; }
  /// True if some clips have mask files.
  virtual bool has_masks() const { return false; }
  /// A text that changes if the clip or a file beside it may have changed; computed without reading
  /// all bytes.
  virtual std::string stamp(int64_t clip) const = 0;
  /// Hash of the bytes of the clip and of the files beside it.
  virtual std::string hash(int64_t clip) const = 0;
  /// Decodes the complete clip without keeping it: throws an Error with its name if any part is
  /// corrupt.
  virtual void verify(int64_t clip) const { measure(clip); }
  /// Files next to the clips that may have been intended as clips.
  virtual std::vector<SkippedFile> left_out() const { return {}; }
  /// Warnings about parts of the set that are read in an unexpected way.
  virtual std::vector<std::string> notes() const { return {}; }
  /// The rules of several data sets; empty: there is one, with the rules of the run.
  virtual const std::vector<SetRules>& sets() const;
  /// The set of a clip, by number; 0 without sets.
  virtual size_t set_of(int64_t /*clip*/) const { return 0; }
  /// True if measuring every clip reads the complete set.
  virtual bool is_slow_to_measure() const { return false; }
};

/// A variant of a clip's caption, of ClipSet::caption_variants. Throws an Error as caption().
std::string varied_caption(const ClipSet& clips, int64_t clip, const CaptionRules& rules,
                           int64_t variant);

/// The clips of list_folder for a folder, or those of a tar, of a folder that contains only tars
/// (tar_clips), or of a TOML file (dataset_file.h). Throws their Errors, except, with `keep_bad`,
/// for clips that are missing or have no caption: reading such a clip throws.
std::unique_ptr<ClipSet> folder_clips(const std::filesystem::path& folder,
                                      const std::string& caption_column, bool keep_bad = false,
                                      bool images = true, const std::string& split = "train");

/// Path, size and time of a file, and a hash of samples of its bytes (io::hash_sample): identifies
/// a file without reading all of it.
std::string file_stamp(const std::filesystem::path& file);

/// The same for many files: a folder's links are resolved once. Thread-safe.
class FileStamps {
 public:
  std::string of(const std::filesystem::path& file) const;

 private:
  const std::filesystem::path& canonical(const std::filesystem::path& folder) const;

  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::filesystem::path> folders_;
};

}  // namespace kinema::data
