#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kinema/data/buckets.h"
#include "kinema/data/clip_set.h"

/// A look at every clip before the first one is decoded.
namespace kinema::data {

struct Survey {
  std::vector<ClipSize> sizes;        // by clip; of one that cannot be used: zeros
  std::vector<std::string> problems;  // by clip: why it cannot be used; empty: it can
  ClipBuckets buckets;                // where there are any
  std::vector<LeftOut> left_out;      // files that are no clips of the set
  std::vector<std::string> notes;     // ClipSet::notes
  int64_t empty_captions = 0;         // of clips that can be used

  int64_t bad() const;
};

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

/// How many clips have which rate; those within 2 % of each other are of one. The most frequent
/// first. Images have none.
struct Rate {
  double fps = 0;
  int64_t clips = 0;
};
std::vector<Rate> rates_of(const Survey& survey);

/// How many times as tall or wide a clip becomes in its format; below 1 it gets smaller.
double enlargement(const ClipSize& clip, const ClipFormat& format);

/// An Error's words about a clip in one line: without the room's name, with the clip's name in
/// place of its path.
std::string short_reason(const std::string& name, const std::string& reason);

}  // namespace kinema::data
