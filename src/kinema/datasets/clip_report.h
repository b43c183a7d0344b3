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

/// Log lines about a set of clips, before the first one is encoded.
namespace kinema::datasets {

struct ClipReport {
  std::string what = "data";           // the start of the log line
  std::string file = "skipped.jsonl";  // in the run's folder: skipped clips and the reasons
};

/// Measures each clip that is used, as a task if that takes long. If measuring is slow, only the
/// first clips are measured, unless buckets need all.
data::Survey survey_dataset(const ClipSettings& settings, const data::ClipSet& clips,
                            const Job& job);

/// `data: 812 clips, 3 skipped: too short 2, not in metadata.jsonl 1 (a.avi is too short: ...; all
/// in FILE)`, then lines about likely mistakes and conversions: transparent parts, HDR, empty
/// captions, frame rates, clips that are enlarged much, and the set's own notes.
std::vector<std::string> report_lines(const ClipSettings& settings, const data::ClipSet& clips,
                                      const data::Survey& survey, const ClipReport& report,
                                      const std::string& file);

/// The file in the run's folder with one line per skipped clip: `{"file": ..., "cause": ...,
/// "reason": ...}`.
class SkippedClipsFile {
 public:
  /// An empty path: no file.
  explicit SkippedClipsFile(std::filesystem::path path = {}) : path_(std::move(path)) {}

  /// Replaces the file of an earlier start by the result of reading the headers.
  void write(const data::ClipSet& clips, const data::Survey& survey) const;
  /// Adds a clip that could not be decoded. Several processes may add at the same time.
  void add(const data::ClipSet& clips, int64_t clip, const std::string& reason) const;

 private:
  std::filesystem::path path_;
};

/// Prints the log lines and writes the skipped clips to the run's folder. Throws an Error that
/// names the unusable clips unless skip_bad_clips is set, and the errors of check_enough. `fits`:
/// see check_enough.
SkippedClipsFile report_clips(const ClipSettings& settings, const data::ClipSet& clips,
                              const data::Survey& survey, const ClipReport& report,
                              const FitsFrames& fits, const Job& job);

}  // namespace kinema::datasets
