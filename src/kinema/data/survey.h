#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kinema/data/auto_buckets.h"
#include "kinema/data/buckets.h"
#include "kinema/data/clip_set.h"

/// Checks every clip before the first one is decoded.
namespace kinema::data {

struct Survey {
  std::vector<ClipSize> sizes;        // by clip; zeros if it cannot be measured
  std::vector<std::string> problems;  // by clip: why it cannot be used; empty: usable
  std::vector<std::string> causes;    // by clip: the short reason (`too short`)
  ClipBuckets buckets;                // if buckets are used
  std::vector<SkippedFile> left_out;  // files that are not clips of the set
  std::vector<std::string> notes;     // ClipSet::notes
  int64_t empty_captions = 0;         // of usable clips

  int64_t bad() const;
};

/// The cause of a clip with fewer frames than a sample needs.
inline constexpr const char* kTooShort = "too short";
/// The cause of a picture if a sample needs several frames.
inline constexpr const char* kPicture = "a picture";

/// Number of skipped clips and files by cause, the most frequent first.
struct CauseCount {
  std::string cause;
  int64_t count = 0;
};
std::vector<CauseCount> count_causes(const Survey& survey);

struct SurveyOptions {
  /// Only the first `clips` clips.
  int64_t clips = 0;
  /// Clips that are too short for this are a problem, unless there are buckets, or data sets with
  /// sizes of their own (ClipSet::sets).
  ClipFormat format;
  bool any_length = false;  // no clip is too short
  bool own_sizes = true;    // false: all clips get the run's sizes
  std::vector<Bucket> buckets = {};
  /// Instead of given buckets, sizes chosen by the clips' aspect ratios.
  std::optional<AutoBuckets> automatic = {};
  int threads = 2;
  /// Called after each clip, one call at a time.
  std::function<void(int64_t done)> on_progress = {};
};

/// Captions, sizes, lengths and buckets of clips, from their files' headers; corruption of other
/// parts is not detected. Does not throw for a clip: errors become the clip's problem.
Survey survey_clips(const ClipSet& clips, const SurveyOptions& options);

/// The number of usable clips by frame rate (rounded to the four digits that are shown), the most
/// frequent first. Images have no rate.
struct Rate {
  double fps = 0;
  int64_t clips = 0;
};
std::vector<Rate> frame_rates(const Survey& survey);

/// Fewer frames per sample, and the number of clips that are long enough.
struct FewerFrames {
  int64_t num_frames = 0;
  int64_t clips = 0;
};
/// The largest number of frames, of those that `fits` accepts, that nine in ten of the clips have,
/// counting usable and too short clips; nothing if no number above 1 works.
std::optional<FewerFrames> suggested_num_frames(
    const Survey& survey, const ClipFormat& format,
    const std::function<bool(int64_t num_frames)>& fits);
/// The number of these clips that are long enough for the format.
int64_t long_enough(const Survey& survey, const ClipFormat& format);

/// The scale factor of a clip in its format; below 1 it is reduced.
double enlargement(const ClipSize& clip, const ClipFormat& format);

/// An Error's text about a clip in one line: without the module's name, and with the clip's path in
/// its set instead of its full path.
std::string short_reason(const ClipSet& clips, int64_t clip, const std::string& reason);

}  // namespace kinema::data
