#include "kinema/runs/clip_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/core/stopwatch.h"
#include "kinema/data/clip_file.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/runs/clips.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

/// Of a set that is slow to measure.
constexpr int64_t kFewClips = 64;
/// Named in a line; the others are in the file.
constexpr size_t kNamed = 3;
/// Beyond this many times its height or width a clip is mostly made up.
constexpr double kMuch = 2;

/// Whose rate is meant, when no more than so much of it is missing.
constexpr double kSameSpeed = 0.05;

/// What one of them is called: of one frame, pictures.
const char* noun(const config::Config& config) {
  return clip_format(config).num_frames == 1 ? "picture" : "clip";
}

std::vector<data::LeftOut> all_left_out(const data::ClipSet& clips, const data::Survey& survey) {
  std::vector<data::LeftOut> out;
  for (size_t i = 0; i < survey.problems.size(); ++i) {
    if (!survey.problems[i].empty()) {
      const auto clip = static_cast<int64_t>(i);
      out.push_back({clips.where(clip), data::short_reason(clips.name(clip), survey.problems[i])});
    }
  }
  for (const data::LeftOut& each : survey.left_out) {
    out.push_back({each.file, each.file + ": " + each.reason});
  }
  return out;
}

/// `a.avi has no video stream; b.mp4: not in metadata.jsonl; ...`.
std::string first_of(const std::vector<data::LeftOut>& left_out) {
  std::string out;
  for (size_t i = 0; i < std::min(left_out.size(), kNamed); ++i) {
    out += (i == 0 ? "" : "; ") + left_out[i].reason;
  }
  return out + (left_out.size() > kNamed ? "; ..." : "");
}

/// `30 (700 clips), 16 (112)`.
std::string rates_text(const std::vector<data::Rate>& rates) {
  std::string out;
  for (size_t i = 0; i < rates.size() && i < 4; ++i) {
    out += fmt::format("{}{:.4g} ({}{})", i == 0 ? "" : ", ", rates[i].fps, rates[i].clips,
                       i == 0 ? " clips" : "");
  }
  return out + (rates.size() > 4 ? ", ..." : "");
}

/// What becomes of the clips' speed; empty: it is as it should be.
std::string speed_line(const config::Config& config, const data::Survey& survey) {
  const std::vector<data::Rate> rates = data::rates_of(survey);
  const data::ClipFormat format = clip_format(config);
  const bool one_frame = format.num_frames == 1 && survey.buckets.empty();
  if (rates.empty() || one_frame) {
    return "";
  }
  if (format.fps > 0) {
    const auto slower = [&](const data::Rate& rate) {
      return rate.fps < format.fps * (1 - kSameSpeed);
    };
    int64_t slow = 0;
    for (const data::Rate& rate : rates) {
      slow += slower(rate) ? rate.clips : 0;
    }
    return slow == 0 ? ""
                     : fmt::format(
                           "{} of fewer than target_fps {:.4g} frames a second: frames are "
                           "repeated ({})",
                           counted(slow, "clip"), format.fps, rates_text(rates));
  }
  const auto wanted = static_cast<double>(config.generate.fps);
  if (rates.size() > 1) {
    return fmt::format(
        "clips have different rates, {} frames a second, and so train at different speeds; "
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

/// Clips that are much smaller than what they are brought to; empty: none.
std::string enlarged_line(const config::Config& config, const data::ClipSet& clips,
                          const data::Survey& survey) {
  const data::ClipFormat wanted = clip_format(config);
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
      "{} {} more than twice as large as {}, {} {:.2g} times ({}x{} to {}x{}): there is no "
      "detail in that",
      counted(count, noun(config)), count == 1 ? "becomes" : "become",
      count == 1 ? "it is" : "they are", clips.name(worst), most, size.width, size.height,
      worst_format.width, worst_format.height);
}

/// Clips that train as an empty prompt does; empty: none.
std::string empty_line(const config::Config& config, const data::Survey& survey) {
  const auto count = static_cast<int64_t>(survey.sizes.size());
  return survey.empty_captions == 0
             ? ""
             : fmt::format("{} of {} {} an empty caption", survey.empty_captions,
                           counted(count, noun(config)),
                           survey.empty_captions == 1 ? "has" : "have");
}

}  // namespace

data::Survey look_at_clips(const config::Config& config, const data::ClipSet& clips,
                           const Job& job) {
  const std::vector<data::Bucket> buckets = bucket_sizes(config.data);
  const int64_t most = config.data.max_train_samples;
  int64_t count = most < 0 ? clips.size() : std::min(most, clips.size());
  if (clips.is_slow_to_measure() && buckets.empty()) {
    count = std::min(count, kFewClips);
  }
  std::unique_ptr<Task> bar;
  const Stopwatch watch;
  return data::survey_clips(clips, {.clips = count,
                                    .format = clip_format(config),
                                    .buckets = buckets,
                                    .threads = static_cast<int>(config.data.decode_threads),
                                    .on_progress = [&](int64_t done) {
                                      if (!bar && watch.seconds() > 1) {
                                        bar = job.task("looking at clips", count);
                                      }
                                      if (bar) {
                                        bar->update(done);
                                      }
                                    }});
}

std::vector<std::string> report_lines(const config::Config& config, const data::ClipSet& clips,
                                      const data::Survey& survey, const ClipReport& report,
                                      const std::string& file) {
  const int64_t most = config.data.max_train_samples;
  const int64_t all = most < 0 ? clips.size() : std::min(most, clips.size());
  const std::vector<data::LeftOut> left_out = all_left_out(clips, survey);
  std::string line = fmt::format("{}: {}", report.what, counted(all - survey.bad(), noun(config)));
  if (!left_out.empty()) {
    line += fmt::format(", {} left out ({}{})", left_out.size(), first_of(left_out),
                        file.empty() ? "" : "; all in " + file);
  }
  std::vector<std::string> out{std::move(line)};
  const bool part = static_cast<int64_t>(survey.sizes.size()) < all;
  for (std::string each : {empty_line(config, survey), speed_line(config, survey),
                           enlarged_line(config, clips, survey)}) {
    if (!each.empty()) {
      out.push_back(
          fmt::format("warning: {}{}", each,
                      part ? fmt::format(" (of the first {})", survey.sizes.size()) : ""));
    }
  }
  for (const std::string& each : survey.notes) {
    out.push_back(fmt::format("{}: {}", report.what, each));
  }
  return out;
}

void report_clips(const config::Config& config, const data::ClipSet& clips,
                  const data::Survey& survey, const ClipReport& report, const Job& job) {
  const std::vector<data::LeftOut> left_out = all_left_out(clips, survey);
  // A model that no run made is evaluated without a run's folder.
  const fs::path file =
      config.run.run_name.empty() ? fs::path() : config::run_folder(config) / report.file;
  std::error_code ignored;
  const bool writes = fs::is_directory(file.parent_path(), ignored);
  if (writes && left_out.empty()) {
    fs::remove(file, ignored);  // of an earlier start
  }
  if (writes && !left_out.empty()) {
    std::string text;
    for (const data::LeftOut& each : left_out) {
      io::Json line = io::Json::object();
      text += line.set("file", each.file).set("reason", each.reason).dump(-1) + "\n";
    }
    io::write_file(file, text);
  }
  const int64_t bad = survey.bad();
  const auto count = static_cast<int64_t>(survey.problems.size());
  if (bad > 0 && (!config.data.skip_bad_clips || bad == count)) {
    std::vector<data::LeftOut> unusable(left_out.begin(), left_out.begin() + bad);
    const auto first =
        std::ranges::find_if(survey.problems, [](const std::string& why) { return !why.empty(); });
    check(bad > 1, "{}{}", *first,
          first->find('\n') != std::string::npos || bad == count
              ? ""
              : "\n  skip_bad_clips=true leaves it out");
    fail("[data] {} of {} cannot be used: {}\n  {}", bad, counted(count, noun(config)),
         first_of(unusable),
         bad == count
             ? "`kinema inspect FOLDER --check` looks at each"
             : "skip_bad_clips=true leaves them out; `kinema inspect FOLDER --check` names "
               "all");
  }
  job.notice(report_lines(config, clips, survey, report, writes ? file.string() : ""));
}

}  // namespace kinema::runs
