#include "kinema/data/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/data/clip_file.h"
#include "kinema/data/set_rules.h"

namespace kinema::data {
namespace {

/// The fraction of clips to keep.
constexpr double kMost = 0.9;

/// Frames of each clip that is long enough or only too short: other problems would remain with a
/// shorter sample.
std::vector<int64_t> frames_there(const Survey& survey, const ClipFormat& format) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < survey.sizes.size(); ++i) {
    if (survey.problems[i].empty() || survey.causes[i] == kTooShort) {
      out.push_back(frames_in(survey.sizes[i], format));
    }
  }
  return out;
}

/// Gives each usable clip its size; the buckets are those that clips have.
void bucket_by_ratio(const AutoBuckets& automatic, int64_t frames, Survey& survey) {
  const std::vector<Bucket> all = auto_buckets(automatic, frames);
  std::vector<Bucket>& used = survey.buckets.buckets;
  survey.buckets.bucket_of.assign(survey.sizes.size(), -1);
  for (size_t i = 0; i < survey.sizes.size(); ++i) {
    if (!survey.problems[i].empty()) {
      continue;
    }
    try {
      const Bucket own = auto_bucket(automatic, all, survey.sizes[i]);
      const auto found = std::ranges::find(used, own);
      survey.buckets.bucket_of[i] = found - used.begin();
      if (found == used.end()) {
        used.push_back(own);
      }
    } catch (const Error& error) {
      survey.problems[i] = error.what();
      survey.causes[i] = "too small";
    }
  }
}

}  // namespace

int64_t Survey::bad() const {
  return std::ranges::count_if(problems, [](const std::string& why) { return !why.empty(); });
}

Survey survey_clips(const ClipSet& clips, const SurveyOptions& options) {
  Survey out;
  const auto count = static_cast<size_t>(std::min(options.clips, clips.size()));
  out.sizes.resize(count);
  out.problems.resize(count);
  out.causes.resize(count);
  out.left_out = clips.left_out();
  out.notes = clips.notes();
  const bool own_sizes = options.own_sizes && have_own_sizes(clips.sets());
  std::mutex mutex;
  int64_t done = 0;
  for_each_in_parallel(count, options.threads, [&](size_t i) {
    const auto clip = static_cast<int64_t>(i);
    bool is_empty = false;
    std::string cause = "no caption";
    try {
      is_empty = clips.caption(clip).empty();
      cause = "cannot be decoded";
      const ClipSize size = clips.measure(clip);
      out.sizes[i] = size;
      cause = size.frames == 1 && size.fps <= 0 ? kPicture : kTooShort;
      if (options.buckets.empty() && !options.any_length && !own_sizes) {
        check_length(size, clips.path(clip), options.format);
      }
    } catch (const Error& error) {
      out.problems[i] = error.what();
      const std::string known = clips.cause(clip);
      out.causes[i] = known.empty() ? cause : known;
    }
    const std::lock_guard lock(mutex);
    ++done;
    out.empty_captions += is_empty && out.problems[i].empty() ? 1 : 0;
    if (options.on_progress) {
      options.on_progress(done);
    }
  });
  const auto measured = [&](int64_t clip) {
    const auto i = static_cast<size_t>(clip);
    check(out.problems[i].empty(), "{}", out.problems[i]);
    return out.sizes[i];
  };
  const auto on_problem = [&](int64_t clip, const std::string& why) {
    const auto i = static_cast<size_t>(clip);
    out.causes[i] = out.problems[i].empty() ? kTooShort : out.causes[i];
    out.problems[i] = why;
  };
  if (own_sizes) {
    out.buckets = bucket_sets(clips, static_cast<int64_t>(count),
                              {.buckets = options.buckets, .automatic = options.automatic},
                              options.format, measured, options.threads, on_problem);
  } else if (options.automatic) {
    bucket_by_ratio(*options.automatic, options.format.num_frames, out);
  } else if (!options.buckets.empty()) {
    out.buckets = bucket_clips(static_cast<int64_t>(count), options.buckets, options.format,
                               measured, options.threads, on_problem);
  }
  return out;
}

std::vector<Rate> frame_rates(const Survey& survey) {
  std::map<std::string, Rate> by_text;
  for (size_t i = 0; i < survey.sizes.size(); ++i) {
    const ClipSize& size = survey.sizes[i];
    if (survey.problems[i].empty() && size.fps > 0 && size.frames > 1) {
      Rate& rate = by_text[fmt::format("{:.4g}", size.fps)];
      rate.fps = size.fps;
      ++rate.clips;
    }
  }
  std::vector<Rate> out;
  for (const auto& [text, rate] : by_text) {
    out.push_back(rate);
  }
  std::ranges::sort(out, std::ranges::greater(), &Rate::fps);
  std::ranges::stable_sort(out, std::ranges::greater(), &Rate::clips);
  return out;
}

std::vector<CauseCount> count_causes(const Survey& survey) {
  std::map<std::string, int64_t> counts;
  for (const std::string& cause : survey.causes) {
    counts[cause] += cause.empty() ? 0 : 1;
  }
  for (const SkippedFile& each : survey.left_out) {
    counts[each.files == 1 ? each.reason : "neither a video nor an image by its name"] +=
        each.files;
  }
  std::vector<CauseCount> out;
  for (const auto& [cause, count] : counts) {
    if (count > 0) {
      out.push_back({cause, count});
    }
  }
  std::ranges::stable_sort(out, std::ranges::greater(), &CauseCount::count);
  return out;
}

int64_t long_enough(const Survey& survey, const ClipFormat& format) {
  const int64_t needed = frames_needed(format);
  return std::ranges::count_if(frames_there(survey, format),
                               [&](int64_t frames) { return frames >= needed; });
}

std::optional<FewerFrames> suggested_num_frames(const Survey& survey, const ClipFormat& format,
                                                const std::function<bool(int64_t)>& fits) {
  std::vector<int64_t> frames = frames_there(survey, format);
  if (frames.empty()) {
    return std::nullopt;
  }
  std::ranges::sort(frames, std::ranges::greater());
  const auto wanted = static_cast<size_t>(std::ceil(kMost * static_cast<double>(frames.size())));
  const int64_t common = frames[wanted - 1];  // nine in ten clips have this many frames
  ClipFormat shorter = format;
  shorter.num_frames = std::min(format.num_frames - 1, common);
  while (shorter.num_frames > 1 && (frames_needed(shorter) > common || !fits(shorter.num_frames))) {
    --shorter.num_frames;
  }
  if (shorter.num_frames <= 1) {
    return std::nullopt;
  }
  return FewerFrames{shorter.num_frames, long_enough(survey, shorter)};
}

double enlargement(const ClipSize& clip, const ClipFormat& format) {
  const auto ratio = [](int64_t to, int64_t from) {
    return static_cast<double>(to) / static_cast<double>(std::max<int64_t>(from, 1));
  };
  return std::max(ratio(format.height, clip.height), ratio(format.width, clip.width));
}

std::string short_reason(const ClipSet& clips, int64_t clip, const std::string& reason) {
  std::string out = reason.substr(0, reason.find('\n'));
  if (out.starts_with('[')) {
    const size_t end = out.find("] ");
    out = end == std::string::npos ? out : out.substr(end + 2);
  }
  const std::string path = clips.path(clip);
  const std::string where = clips.where(clip);
  const bool is_there = out.find(where) != std::string::npos;
  // For a member of a tar, the short name is a part of its path.
  const bool is_short = where.size() > path.size() && is_there;
  const size_t at = path.empty() || is_short ? std::string::npos : out.find(path);
  if (at != std::string::npos) {
    out.replace(at, path.size(), where);
    return out;
  }
  return is_there ? out : where + ": " + out;
}

}  // namespace kinema::data
