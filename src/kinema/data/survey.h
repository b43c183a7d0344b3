#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kinema/data/buckets.h"
#include "kinema/data/clip_set.h"

/// A look at every clip before the first one is decoded.
namespace kinema::data {

struct Survey {
  std::vector<ClipSize> sizes;        // by clip; of one that cannot be measured: zeros
  std::vector<std::string> problems;  // by clip: why it cannot be used; empty: it can
  std::vector<std::string> causes;    // by clip: the same in few words (`too short`)
  ClipBuckets buckets;                // where there are any
  std::vector<LeftOut> left_out;      // files that are no clips of the set
  std::vector<std::string> notes;     // ClipSet::notes
  int64_t empty_captions = 0;         // of clips that can be used

  int64_t bad() const;
};

/// The cause of a clip with fewer frames than a sample takes.
inline constexpr const char* kTooShort = "too short";

/// What was left out, clips and other files, by cause: the most frequent first.
struct CauseCount {
  std::string cause;
  int64_t count = 0;
};
std::vector<CauseCount> causes_of(const Survey& survey);

struct SurveyOptions {
  /// Only the first so many clips.
  int64_t clips = 0;
  /// Clips that are too short for it are a problem, unless there are buckets.
  ClipFormat format;
  bool any_length = false;  // no clip is too short
  std::vector<Bucket> buckets = {};
  int threads = 2;
  /// Called after each clip, one call at a time.
  std::function<void(int64_t done)> on_progress = {};
};

/// Captions, sizes, lengths and buckets of clips, from their files' headers: damage further in is
/// not seen. Throws no Error for a clip: it is the clip's problem.
Survey survey_clips(const ClipSet& clips, const SurveyOptions& options);

/// How many of the clips that can be used have which rate, to the four digits that are shown. The
/// most frequent first. Images have none.
struct Rate {
  double fps = 0;
  int64_t clips = 0;
};
std::vector<Rate> rates_of(const Survey& survey);

/// Fewer frames a sample, and how many clips are long enough for them.
struct FewerFrames {
  int64_t num_frames = 0;
  int64_t clips = 0;
};
/// The most frames, of numbers that `fits` takes, that nine in ten of the clips have which can be
/// used or are too short; nothing where no number above 1 does.
std::optional<FewerFrames> frames_that_keep(const Survey& survey, const ClipFormat& format,
                                            const std::function<bool(int64_t num_frames)>& fits);
/// How many of those clips are long enough for the format.
int64_t long_enough(const Survey& survey, const ClipFormat& format);

/// How many times as tall or wide a clip becomes in its format; below 1 it gets smaller.
double enlargement(const ClipSize& clip, const ClipFormat& format);

/// An Error's words about a clip in one line: without the room's name, with where the clip lies in
/// its set in place of its path.
std::string short_reason(const ClipSet& clips, int64_t clip, const std::string& reason);

}  // namespace kinema::data
