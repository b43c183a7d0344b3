#include "kinema/data/survey.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/data/clip_file.h"

namespace kinema::data {
namespace {

/// Rates that containers round differently are one.
constexpr double kSameRate = 0.02;

}  // namespace

int64_t Survey::bad() const {
  return std::ranges::count_if(problems, [](const std::string& why) { return !why.empty(); });
}

Survey survey_clips(const ClipSet& clips, const SurveyOptions& options) {
  Survey out;
  const auto count = static_cast<size_t>(std::min(options.clips, clips.size()));
  out.sizes.resize(count);
  out.problems.resize(count);
  out.left_out = clips.left_out();
  out.notes = clips.notes();
  std::mutex mutex;
  int64_t done = 0;
  for_each_in_parallel(count, options.threads, [&](size_t i) {
    const auto clip = static_cast<int64_t>(i);
    bool is_empty = false;
    try {
      is_empty = clips.caption(clip).empty();
      const ClipSize size = clips.measure(clip);
      if (options.buckets.empty() && !options.any_length) {
        check_length(size, clips.name(clip), options.format);
      }
      out.sizes[i] = size;
    } catch (const Error& error) {
      out.problems[i] = error.what();
    }
    const std::lock_guard lock(mutex);
    ++done;
    out.empty_captions += is_empty && out.problems[i].empty() ? 1 : 0;
    if (options.on_progress) {
      options.on_progress(done);
    }
  });
  if (!options.buckets.empty()) {
    const auto measured = [&](int64_t clip) {
      const auto i = static_cast<size_t>(clip);
      check(out.problems[i].empty(), "{}", out.problems[i]);
      return out.sizes[i];
    };
    out.buckets =
        bucket_clips(static_cast<int64_t>(count), options.buckets, options.format, measured,
                     options.threads, [&](int64_t clip, const std::string& why) {
                       out.problems[static_cast<size_t>(clip)] = why;
                     });
  }
  return out;
}

std::vector<Rate> rates_of(const Survey& survey) {
  std::vector<double> all;
  for (const ClipSize& each : survey.sizes) {
    if (each.fps > 0 && each.frames > 1) {
      all.push_back(each.fps);
    }
  }
  std::ranges::sort(all);
  std::vector<Rate> out;
  for (const double fps : all) {
    if (out.empty() || fps > out.back().fps * (1 + kSameRate)) {
      out.push_back({fps, 0});
    }
    ++out.back().clips;
  }
  std::ranges::stable_sort(out, std::ranges::greater(), &Rate::clips);
  return out;
}

double enlargement(const ClipSize& clip, const ClipFormat& format) {
  const auto ratio = [](int64_t to, int64_t from) {
    return static_cast<double>(to) / static_cast<double>(std::max<int64_t>(from, 1));
  };
  return std::max(ratio(format.height, clip.height), ratio(format.width, clip.width));
}

std::string short_reason(const std::string& name, const std::string& reason) {
  std::string out = reason.substr(0, reason.find('\n'));
  if (out.starts_with('[')) {
    const size_t end = out.find("] ");
    out = end == std::string::npos ? out : out.substr(end + 2);
  }
  // The path that ends in the name, whatever folder it begins with.
  if (const size_t at = out.find(name); at != std::string::npos && !name.empty()) {
    size_t begin = out.find_last_of(" (", at);
    begin = begin == std::string::npos ? 0 : begin + 1;
    if (begin < at && out[at - 1] == '/') {
      out.erase(begin, at - begin);
    }
  }
  return out.find(name) == std::string::npos ? name + ": " + out : out;
}

}  // namespace kinema::data
