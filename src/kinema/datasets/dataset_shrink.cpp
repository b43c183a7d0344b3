#include "kinema/datasets/dataset_shrink.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/data/clip_file.h"
#include "kinema/datasets/clips.h"
#include "kinema/encoders/clip_sizes.h"

namespace kinema::datasets {
namespace {

/// The bucket of most of the clips that are too short, if they were long enough.
std::optional<data::Bucket> missed_bucket(const ClipSettings& settings,
                                          const data::Survey& survey) {
  const std::vector<data::Bucket>& buckets = settings.buckets;
  std::map<size_t, int64_t> counts;
  for (size_t i = 0; i < survey.sizes.size() && !buckets.empty(); ++i) {
    if (survey.causes[i] == data::kTooShort) {
      data::ClipSize endless = survey.sizes[i];
      endless.frames = int64_t{1} << 40;
      ++counts[data::choose_bucket(buckets, endless, settings.order.format.frame_stride)];
    }
  }
  const auto most = std::ranges::max_element(
      counts, {}, [](const std::pair<const size_t, int64_t>& each) { return each.second; });
  return most == counts.end() ? std::nullopt : std::optional(buckets[most->first]);
}

}  // namespace

FitsFrames fits_frames(const ClipSettings& settings, const encoders::LatentLayout& layout) {
  return [format = settings.order.format, layout](int64_t num_frames) {
    try {
      encoders::check_clip_sizes(num_frames, format.height, format.width, layout);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
}

std::string length_remedy(const ClipSettings& settings, const data::Survey& survey,
                          const FitsFrames& fits) {
  const auto count = [&](std::string_view cause) {
    return std::ranges::count(survey.causes, cause);
  };
  if (count(data::kPicture) > count(data::kTooShort)) {
    return fmt::format("num_frames=1 keeps {} of {}, pictures as clips of one frame",
                       count(data::kPicture) + count(data::kTooShort) + count(""),
                       survey.sizes.size());
  }
  if (count(data::kTooShort) == 0) {
    return "";
  }
  data::ClipFormat format = settings.order.format;
  const std::optional<data::Bucket> missed = missed_bucket(settings, survey);
  if (missed) {
    format = data::sized(format, *missed);
  }
  std::vector<std::string> ways;
  if (const auto fewer = data::suggested_num_frames(survey, format, fits)) {
    ways.push_back(fmt::format("{} keeps {}",
                               missed
                                   ? fmt::format("[{}, {}, {}] among the buckets",
                                                 fewer->num_frames, missed->height, missed->width)
                                   : fmt::format("num_frames={}", fewer->num_frames),
                               fewer->clips));
  }
  data::ClipFormat all_frames = format;
  all_frames.fps = 0;
  all_frames.frame_stride = 1;
  const int64_t kept = data::long_enough(survey, all_frames);
  if (kept > data::long_enough(survey, format)) {
    ways.push_back(fmt::format(
        "{} keeps {}",
        format.fps > 0 ? "target_fps=0 (frames as they are stored)" : "frame_stride=1", kept));
  }
  if (ways.empty()) {
    return "";
  }
  return fmt::format("{} of {}", fmt::join(ways, ", "), survey.sizes.size());
}

void check_enough(const ClipSettings& settings, const data::ClipSet& clips,
                  const data::Survey& survey, const FitsFrames& fits) {
  const auto count = static_cast<int64_t>(survey.sizes.size());
  const std::vector<data::CauseCount> causes = data::count_causes({.causes = survey.causes});
  if (settings.allow_shrink || causes.empty() || 2 * causes[0].count <= count) {
    return;
  }
  const auto first = std::ranges::find(survey.causes, causes[0].cause) - survey.causes.begin();
  const bool is_of_frames = causes[0].cause == data::kTooShort || causes[0].cause == data::kPicture;
  const std::string longer = is_of_frames ? length_remedy(settings, survey, fits) : "";
  const std::string remedy =
      longer.empty() ? "`kinema inspect FOLDER --check` lists the problem of each" : longer;
  const std::string reason =
      data::short_reason(clips, first, survey.problems[static_cast<size_t>(first)]);
  const int64_t left = count - survey.bad();
  check(left > 0, "[data] none of the {} can be used, {} for one reason, {} ({})\n  {}",
        counted(count, clip_noun(settings)),
        causes[0].count == count ? "all" : fmt::format("{}", causes[0].count), causes[0].cause,
        reason, remedy);
  fail(
      "[data] {} of {} cannot be used for one reason, {} ({}): {} would be left\n"
      "  {}; allow_dataset_shrink=true continues with {}",
      causes[0].count, counted(count, clip_noun(settings)), causes[0].cause, reason, left, remedy,
      left);
}

}  // namespace kinema::datasets
