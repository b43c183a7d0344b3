#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "kinema/data/clip_set.h"
#include "kinema/data/survey.h"
#include "kinema/datasets/clips.h"
#include "kinema/datasets/dataset_shrink.h"
#include "kinema/job/job.h"

/// What is told of a set of clips before the first is encoded.
namespace kinema::datasets {

struct ClipReport {
  std::string what = "data";           // begins the line
  std::string file = "skipped.jsonl";  // in the run's folder: what was left out and why
};

/// Measures each clip that is used, as a task where that takes long. Of a set that
/// is slow to measure only some at the front are looked at, unless buckets ask for all.
data::Survey look_at_clips(const ClipSettings& settings, const data::ClipSet& clips,
                           const Job& job);

/// `data: 812 clips, 3 left out: too short 2, not in metadata.jsonl 1 (a.avi is too short: ...; all
/// in FILE)`, and a line for what is taken otherwise than it is stored or would train otherwise
/// than it was meant: transparent parts, HDR, empty captions, rates, clips that are enlarged much,
/// and the set's own notes.
std::vector<std::string> report_lines(const ClipSettings& settings, const data::ClipSet& clips,
                                      const data::Survey& survey, const ClipReport& report,
                                      const std::string& file);

/// The file in the run's folder that says what was left out and why, a line each: `{"file": ...,
/// "cause": ..., "reason": ...}`.
class LeftOutFile {
 public:
  /// An empty path: there is none.
  explicit LeftOutFile(std::filesystem::path path = {}) : path_(std::move(path)) {}

  /// What a look at the headers found, in place of what an earlier start did.
  void write(const data::ClipSet& clips, const data::Survey& survey) const;
  /// One more, that decoding found. Several processes may add at once.
  void add(const data::ClipSet& clips, int64_t clip, const std::string& reason) const;

 private:
  std::filesystem::path path_;
};

/// Tells the lines and writes what was left out to the run's folder. Throws an Error that names
/// the clips that cannot be used, unless such are skipped, and what check_enough does. `fits`: see
/// there.
LeftOutFile report_clips(const ClipSettings& settings, const data::ClipSet& clips,
                         const data::Survey& survey, const ClipReport& report,
                         const FitsFrames& fits, const Job& job);

}  // namespace kinema::datasets
