#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/media/background.h"

namespace kinema::data {

/// Which frames of a clip, and the size they are brought to.
struct ClipFormat {
  int64_t height = 480;
  int64_t width = 832;
  int64_t num_frames = 81;
  /// Every n-th frame of the file.
  int64_t frame_stride = 1;
  /// Above 0: so many frames a second, by the file's time stamps, whatever its own rate; then
  /// frame_stride has no meaning.
  double fps = 0;
  /// What is seen through transparent parts, which are filled before anything is resampled.
  media::Background background = {};
};

/// Where the part of a clip lies that is read: from 0 (its beginning, or its left and top edge) to
/// 1 of what the clip has to spare; where nothing is said, in the middle.
struct ClipWindow {
  std::optional<float> start = std::nullopt;  // of the frames
  std::optional<float> crop = std::nullopt;   // of the columns or rows that its shape has too many
};

/// What a clip's file says of it without being decoded.
struct ClipSize {
  int64_t frames = 0;
  int64_t height = 0;  // upright, of square pixels, as they are shown
  int64_t width = 0;
  double fps = 0;          // 0: an image, or not known
  double seconds = 0;      // 0: an image, or not known
  bool has_alpha = false;  // an alpha channel, or a transparent colour
  bool is_hdr = false;     // PQ or HLG, tone-mapped when it is read
};

/// Files of a set's folder that are none of its clips, and why.
struct LeftOut {
  std::string file;  // or a pattern, of several
  std::string reason;
  int64_t files = 1;
};

/// The reason of images where clips have several frames.
inline constexpr const char* kImageOfOneFrame = "an image, which num_frames=1 takes as a clip";

/// Clips with captions, by number; safe to use from many threads.
class ClipSet {
 public:
  virtual ~ClipSet() = default;
  virtual int64_t size() const = 0;
  /// `clip_03.mp4`, for reports.
  virtual std::string name(int64_t clip) const = 0;
  /// Where the clip lies in its set, for lists: `videos/clip_03.mp4`, `data/train.parquet row 7`.
  virtual std::string where(int64_t clip) const = 0;
  /// What Errors call the clip: of a file, its path.
  virtual std::string path(int64_t clip) const { return name(clip); }
  /// In few words, by which clips are counted, why this one cannot be used (`no caption`), where
  /// that is known before it is opened; empty otherwise.
  virtual std::string cause(int64_t /*clip*/) const { return ""; }
  /// Throws an Error that names a clip whose caption cannot be read.
  virtual std::string caption(int64_t clip) const = 0;
  /// Throws an Error that names a clip that cannot be read.
  virtual ClipSize measure(int64_t clip) const = 0;
  /// f32 [3, num_frames, height, width] in [-1, 1], by fit_frames. Throws an Error that names the
  /// clip when it cannot be decoded or is too short.
  virtual HostArray read(int64_t clip, const ClipFormat& format,
                         const ClipWindow& window) const = 0;
  /// Another text whenever the clip may have become another one: found without reading all of its
  /// bytes.
  virtual std::string stamp(int64_t clip) const = 0;
  /// Hash of the clip's bytes.
  virtual std::string hash(int64_t clip) const = 0;
  /// Decodes all of a clip and keeps nothing: throws an Error that names one with damage anywhere.
  virtual void verify(int64_t clip) const { measure(clip); }
  /// What lies beside the clips and may have been meant as one.
  virtual std::vector<LeftOut> left_out() const { return {}; }
  /// What of the set is not read as its author may have meant it, a line each.
  virtual std::vector<std::string> notes() const { return {}; }
  /// True where a look at each clip reads all of the set.
  virtual bool is_slow_to_measure() const { return false; }
};

/// The clips that list_folder finds in a folder, or those of a tar, or of a folder of nothing but
/// tars (tar_clips). Throws its Errors, but not for a clip that is
/// missing or has no caption where those are to be kept: whoever reads that clip gets them.
std::unique_ptr<ClipSet> folder_clips(const std::filesystem::path& folder,
                                      const std::string& caption_column, bool keep_bad = false,
                                      bool images = true, const std::string& split = "train");

/// Path, size and time of a file, and a hash of samples of its bytes (io::hash_sample): what tells,
/// without reading all of it, that it is the same.
std::string file_stamp(const std::filesystem::path& file);

}  // namespace kinema::data
