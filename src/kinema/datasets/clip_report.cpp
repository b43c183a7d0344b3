#include "kinema/datasets/clip_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/core/stopwatch.h"
#include "kinema/data/clip_file.h"
#include "kinema/data/set_rules.h"
#include "kinema/datasets/clips.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"

namespace kinema::datasets {
namespace {

namespace fs = std::filesystem;

/// The number of clips that are measured if measuring is slow.
constexpr int64_t kFewClips = 64;
/// The number of clips that a log line names; the file has all.
constexpr size_t kNamed = 3;
/// A clip that is enlarged by more than this factor is mostly interpolated.
constexpr double kMuch = 2;

/// A clip whose frame rate is lower by at most this share counts as having the rate.
constexpr double kSameSpeed = 0.05;

/// A skipped clip or file, with the cause in few words and as a sentence that names it.
struct Lost {
  std::string file;
  std::string cause;
  std::string reason;
  int64_t files = 1;
};

/// Clips first, then files.
std::vector<Lost> all_lost(const data::ClipSet& clips, const data::Survey& survey) {
  std::vector<Lost> out;
  for (size_t i = 0; i < survey.problems.size(); ++i) {
    if (!survey.problems[i].empty()) {
      const auto clip = static_cast<int64_t>(i);
      out.push_back({clips.where(clip), survey.causes[i],
                     data::short_reason(clips, clip, survey.problems[i])});
    }
  }
  for (const data::SkippedFile& each : survey.left_out) {
    out.push_back({each.file, each.reason, each.file + ": " + each.reason, each.files});
  }
  return out;
}

/// `a.avi has no video stream; b.mp4: not in metadata.jsonl; ...`.
std::string first_of(const std::vector<Lost>& lost) {
  std::string out;
  for (size_t i = 0; i < std::min(lost.size(), kNamed); ++i) {
    out += (i == 0 ? "" : "; ") + lost[i].reason;
  }
  return out + (lost.size() > kNamed ? "; ..." : "");
}

/// `too short 3, no caption 1`.
std::string causes_text(const data::Survey& survey) {
  std::string out;
  for (const data::CauseCount& each : data::count_causes(survey)) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", each.cause, each.count);
  }
  return out;
}

std::string json_line(const Lost& lost) {
  io::Json line = io::Json::object();
  line.set("file", lost.file).set("cause", lost.cause).set("reason", lost.reason);
  return line.dump(-1) + "\n";
}

/// `30: 700 clips, 16: 112`.
std::string rates_text(const std::vector<data::Rate>& rates) {
  std::string out;
  for (size_t i = 0; i < rates.size() && i < 4; ++i) {
    out += i == 0 ? fmt::format("{:.4g}: {}", rates[i].fps, counted(rates[i].clips, "clip"))
                  : fmt::format(", {:.4g}: {}", rates[i].fps, rates[i].clips);
  }
  return out + (rates.size() > 4 ? ", ..." : "");
}

/// The number of usable clips with this property.
int64_t count_of(const data::Survey& survey, bool data::ClipSize::*is_so) {
  int64_t out = 0;
  for (size_t i = 0; i < survey.sizes.size(); ++i) {
    out += survey.problems[i].empty() && survey.sizes[i].*is_so ? 1 : 0;
  }
  return out;
}

/// A line on the treatment of transparent parts; empty if there are none.
std::string alpha_line(const ClipSettings& settings, const data::Survey& survey) {
  const int64_t count = count_of(survey, &data::ClipSize::has_alpha);
  if (count == 0) {
    return "";
  }
  const std::string some = fmt::format("{} of {} {} an alpha channel", count,
                                       counted(std::ssize(survey.sizes), clip_noun(settings)),
                                       count == 1 ? "has" : "have");
  const media::Background& background = settings.order.format.background;
  return some + (background.drop
                     ? ": it is dropped, and the stored colours are used (alpha_background=drop)"
                     : fmt::format(": transparent parts become {} (alpha_background)",
                                   media::background_name(background)));
}

/// A line on HDR clips, which are converted to SDR; empty if there are none.
std::string hdr_line(const ClipSettings& settings, const data::Survey& survey) {
  const int64_t count = count_of(survey, &data::ClipSize::is_hdr);
  return count == 0 ? ""
                    : fmt::format("{} of {} {} HDR (PQ or HLG): tone-mapped to SDR (BT.2390)",
                                  count, counted(std::ssize(survey.sizes), clip_noun(settings)),
                                  count == 1 ? "is" : "are");
}

/// A line on changes of the clips' speed; empty if there are none.
std::string speed_line(const ClipSettings& settings, const data::Survey& survey) {
  const std::vector<data::Rate> rates = data::frame_rates(survey);
  const data::ClipFormat& format = settings.order.format;
  const bool one_frame = format.num_frames == 1 && survey.buckets.empty();
  if (rates.empty() || one_frame) {
    return "";
  }
  if (format.fps > 0) {
    std::vector<data::Rate> slower = rates;
    std::erase_if(
        slower, [&](const data::Rate& rate) { return rate.fps >= format.fps * (1 - kSameSpeed); });
    int64_t slow = 0;
    for (const data::Rate& rate : slower) {
      slow += rate.clips;
    }
    return slow == 0 ? ""
                     : fmt::format(
                           "{} {} fewer than target_fps {:.4g} frames a second ({}): frames are "
                           "repeated",
                           counted(slow, "clip"), slow == 1 ? "has" : "have", format.fps,
                           rates_text(slower));
  }
  const auto wanted = settings.video_fps;
  const auto [slowest, fastest] = std::ranges::minmax(rates, {}, &data::Rate::fps);
  if (fastest.fps > slowest.fps * (1 + kSameSpeed)) {
    return fmt::format(
        "clips have different rates, in frames a second ({}), and so train at different speeds; "
        "target_fps={:.4g} brings all to one",
        rates_text(rates), wanted);
  }
  const double speed = wanted * static_cast<double>(format.frame_stride) / rates[0].fps;
  return std::abs(speed - 1) <= kSameSpeed
             ? ""
             : fmt::format(
                   "clips have {:.4g} frames a second, videos are made with {:.4g} (fps): "
                   "they train at {:.2g} times their speed; target_fps={:.4g} keeps it",
                   rates[0].fps, wanted, speed, wanted);
}

/// A line on clips that are much smaller than their training size; empty if there are none.
std::string enlarged_line(const ClipSettings& settings, const data::ClipSet& clips,
                          const data::Survey& survey) {
  const data::ClipFormat& wanted = settings.order.format;
  int64_t count = 0;
  int64_t worst = 0;
  double most = kMuch;
  data::ClipFormat worst_format;
  for (size_t i = 0; i < survey.sizes.size(); ++i) {
    const auto clip = static_cast<int64_t>(i);
    if (!survey.problems[i].empty()) {
      continue;
    }
    const data::ClipFormat format = survey.buckets.format(clip, wanted);
    const double times = data::enlargement(survey.sizes[i], format);
    count += times > kMuch ? 1 : 0;
    if (times > most) {
      most = times;
      worst = clip;
      worst_format = format;
    }
  }
  if (count == 0) {
    return "";
  }
  const data::ClipSize& size = survey.sizes[static_cast<size_t>(worst)];
  return fmt::format(
      "{} {} more than twice as large as {}, {} {:.2g} times ({}x{} to {}x{}, height x width): "
      "enlarging adds no detail",
      counted(count, clip_noun(settings)), count == 1 ? "becomes" : "become",
      count == 1 ? "it is" : "they are", clips.name(worst), most, size.height, size.width,
      worst_format.height, worst_format.width);
}

/// A line on clips with an empty caption; empty if there are none.
std::string empty_line(const ClipSettings& settings, const data::Survey& survey) {
  const auto count = static_cast<int64_t>(survey.sizes.size());
  return survey.empty_captions == 0
             ? ""
             : fmt::format("{} of {} {} an empty caption", survey.empty_captions,
                           counted(count, clip_noun(settings)),
                           survey.empty_captions == 1 ? "has" : "have");
}

}  // namespace

data::Survey survey_dataset(const ClipSettings& settings, const data::ClipSet& clips,
                            const Job& job) {
  const std::vector<data::Bucket>& buckets = settings.buckets;
  const int64_t most = settings.order.max_samples;
  int64_t count = most < 0 ? clips.size() : std::min(most, clips.size());
  if (clips.is_slow_to_measure() && buckets.empty() && !settings.automatic &&
      !data::have_own_sizes(clips.sets())) {
    count = std::min(count, kFewClips);
  }
  std::unique_ptr<Task> bar;
  const Stopwatch watch;
  return data::survey_clips(clips, {.clips = count,
                                    .format = settings.order.format,
                                    .buckets = buckets,
                                    .automatic = settings.automatic,
                                    .threads = settings.threads,
                                    .on_progress = [&](int64_t done) {
                                      if (!bar && watch.seconds() > 1) {
                                        bar = job.task("reading clips", count);
                                      }
                                      if (bar) {
                                        bar->update(done);
                                      }
                                    }});
}

std::vector<std::string> report_lines(const ClipSettings& settings, const data::ClipSet& clips,
                                      const data::Survey& survey, const ClipReport& report,
                                      const std::string& file) {
  const int64_t most = settings.order.max_samples;
  const int64_t all = most < 0 ? clips.size() : std::min(most, clips.size());
  const std::vector<Lost> lost = all_lost(clips, survey);
  std::string line =
      fmt::format("{}: {}", report.what, counted(all - survey.bad(), clip_noun(settings)));
  if (!lost.empty()) {
    int64_t files = 0;
    for (const Lost& each : lost) {
      files += each.files;
    }
    line += fmt::format(", {} skipped: {} ({}{})", files, causes_text(survey), first_of(lost),
                        file.empty() ? "" : "; all in " + file);
  }
  std::vector<std::string> out{std::move(line)};
  const bool part = static_cast<int64_t>(survey.sizes.size()) < all;
  const std::string of_part =
      part ? fmt::format(" (of the first {})", survey.sizes.size()) : std::string();
  for (const std::string& each : {alpha_line(settings, survey), hdr_line(settings, survey)}) {
    if (!each.empty()) {
      out.push_back(fmt::format("{}: {}{}", report.what, each, of_part));
    }
  }
  for (const std::string& each : {empty_line(settings, survey), speed_line(settings, survey),
                                  enlarged_line(settings, clips, survey)}) {
    if (!each.empty()) {
      out.push_back(fmt::format("warning: {}{}", each, of_part));
    }
  }
  for (const std::string& each : survey.notes) {
    out.push_back(fmt::format("{}: {}", report.what, each));
  }
  return out;
}

void SkippedClipsFile::write(const data::ClipSet& clips, const data::Survey& survey) const {
  if (path_.empty()) {
    return;
  }
  std::string text;
  for (const Lost& each : all_lost(clips, survey)) {
    text += json_line(each);
  }
  std::error_code ignored;
  if (text.empty()) {
    fs::remove(path_, ignored);  // from an earlier start
  } else {
    io::write_file(path_, text);
  }
}

void SkippedClipsFile::add(const data::ClipSet& clips, int64_t clip,
                           const std::string& reason) const {
  if (path_.empty()) {
    return;
  }
  // Each line is one write in append mode, so that several processes may write.
  std::ofstream(path_, std::ios::app)
      << json_line({clips.where(clip), "damaged", data::short_reason(clips, clip, reason)})
      << std::flush;
}

SkippedClipsFile report_clips(const ClipSettings& settings, const data::ClipSet& clips,
                              const data::Survey& survey, const ClipReport& report,
                              const FitsFrames& fits, const Job& job) {
  // Without a run, there is no run folder for the evaluation.
  const fs::path path = settings.run.empty() ? fs::path() : settings.run / report.file;
  std::error_code ignored;
  const bool writes = fs::is_directory(path.parent_path(), ignored);
  SkippedClipsFile file(writes ? path : fs::path());
  file.write(clips, survey);
  const int64_t bad = survey.bad();
  const auto count = static_cast<int64_t>(survey.problems.size());
  if (bad > 0 && (!settings.skips_bad() || bad == count)) {
    std::vector<Lost> unusable = all_lost(clips, survey);
    unusable.resize(static_cast<size_t>(bad));
    const auto first =
        std::ranges::find_if(survey.problems, [](const std::string& why) { return !why.empty(); });
    const std::string longer = length_remedy(settings, survey, fits);
    const std::string before = longer.empty() ? "" : longer + "; ";
    const bool has_remedy = first->find('\n') != std::string::npos;
    if (bad == 1) {
      const std::string remedy = bad == count ? longer : before + "skip_bad_clips=true skips it";
      fail("{}{}", *first, has_remedy || remedy.empty() ? "" : "\n  " + remedy);
    }
    fail(
        "[data] {} of {} cannot be used ({}): {}\n  {}{}", bad, counted(count, clip_noun(settings)),
        causes_text({.causes = survey.causes}), first_of(unusable), before,
        bad == count ? "`kinema inspect FOLDER --check` checks each"
                     : "skip_bad_clips=true skips them; `kinema inspect FOLDER --check` lists all");
  }
  check_enough(settings, clips, survey, fits);
  job.notice(report_lines(settings, clips, survey, report, writes ? path.string() : ""));
  return file;
}

}  // namespace kinema::datasets
