#pragma once

#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/survey.h"
#include "kinema/runs/job.h"

/// What is told of a set of clips before the first is encoded.
namespace kinema::runs {

struct ClipReport {
  std::string what = "data";           // begins the line
  std::string file = "skipped.jsonl";  // in the run's folder: what was left out and why
};

/// Looks at each clip that the configuration uses, as a task where that takes long. Of a set that
/// is slow to measure only some at the front are looked at, unless buckets ask for all.
data::Survey look_at_clips(const config::Config& config, const data::ClipSet& clips,
                           const Job& job);

/// `data: 812 clips, 3 left out (a.avi has no video stream; ...; all in FILE)`, and a line for what
/// would train otherwise than it was meant: empty captions, rates, clips that are enlarged much,
/// and the set's own notes.
std::vector<std::string> report_lines(const config::Config& config, const data::ClipSet& clips,
                                      const data::Survey& survey, const ClipReport& report,
                                      const std::string& file);

/// Tells the lines and writes what was left out to the run's folder. Throws an Error that names
/// the clips that cannot be used, unless such are skipped.
void report_clips(const config::Config& config, const data::ClipSet& clips,
                  const data::Survey& survey, const ClipReport& report, const Job& job);

}  // namespace kinema::runs
