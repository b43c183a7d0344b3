#include "kinema/data/set_rules.h"

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/data/clip_file.h"

namespace kinema::data {
namespace {

/// The sizes of one set, with all sizes that are chosen by aspect ratio.
struct Choices {
  std::vector<Bucket> all;
  std::optional<AutoBuckets> automatic;
  int64_t frames = 0;  // of sizes by aspect ratio

  /// `path`: the clip's name in Errors.
  Bucket of(ClipSize clip, const std::string& path, const ClipFormat& format) const {
    if (automatic) {
      ClipFormat own = format;
      own.num_frames = frames;
      check_length(clip, path, own);
      return auto_bucket(*automatic, all, clip);
    }
    if (all.size() == 1) {
      check_length(clip, path, sized(format, all.front()));
      return all.front();
    }
    clip.frames = frames_in(clip, format);
    return all[choose_bucket(all, clip, format.fps > 0 ? 1 : format.frame_stride)];
  }
};

Choices choices(const SampleSizes& own, const SampleSizes& run, const ClipFormat& format) {
  const SampleSizes& sizes = own.empty() ? run : own;
  if (sizes.automatic) {
    const int64_t frames = sizes.frames > 0 ? sizes.frames : format.num_frames;
    return {auto_buckets(*sizes.automatic, frames), sizes.automatic, frames};
  }
  const Bucket one{format.num_frames, format.height, format.width};
  return {sizes.buckets.empty() ? std::vector{one} : sizes.buckets, std::nullopt};
}

}  // namespace

SampleSizes own_sizes(const SizeChanges& changes, const SampleSizes& run,
                      const AutoBuckets& automatic, const ClipFormat& format,
                      const std::string& where) {
  if (!changes.buckets.empty()) {
    return {.buckets = changes.buckets, .automatic = std::nullopt};
  }
  const int64_t frames = changes.frames.value_or(format.num_frames);
  const bool has_size = changes.height.has_value();
  const bool has_rules =
      changes.area || changes.step || changes.min_side || changes.max_side || changes.upscale;
  const bool is_automatic = changes.automatic.value_or(run.automatic.has_value());
  check(!has_rules || is_automatic,
        "{} has rules of sizes by aspect ratio, but buckets is not auto", where);
  if (!has_size && !has_rules && !changes.automatic && frames == format.num_frames) {
    return {};
  }
  const int64_t height = changes.height.value_or(format.height);
  const int64_t width = changes.width.value_or(format.width);
  if (!is_automatic) {
    return {.buckets = {{frames, height, width}}, .automatic = std::nullopt};
  }
  const bool takes_area = automatic.area > 0 && !has_size;
  const AutoBuckets out{.area = changes.area.value_or(takes_area ? automatic.area : height * width),
                        .step = changes.step.value_or(automatic.step),
                        .min_side = changes.min_side.value_or(automatic.min_side),
                        .max_side = changes.max_side.value_or(automatic.max_side),
                        .upscale = changes.upscale.value_or(automatic.upscale)};
  try {
    out.check_values();
  } catch (const Error& error) {
    fail("[data] {}: {}", where, error.what());
  }
  return {.buckets = {}, .automatic = out, .frames = frames};
}

bool takes_pictures(const SampleSizes& sizes, const ClipFormat& format) {
  const Choices made = choices(sizes, sizes, format);
  return std::ranges::count(made.all, 1, &Bucket::frames) > 0;
}

bool have_own_sizes(const std::vector<SetRules>& sets) {
  return std::ranges::any_of(sets, [](const SetRules& set) { return !set.sizes.empty(); });
}

std::vector<Bucket> possible_sizes(const std::vector<SetRules>& sets, const SampleSizes& run,
                                   const ClipFormat& format) {
  std::vector<Bucket> out;
  const auto add = [&](const SampleSizes& own) {
    const Choices sizes = choices(own, run, format);
    out.insert(out.end(), sizes.all.begin(), sizes.all.end());
    if (sizes.automatic && !sizes.automatic->upscale) {
      const int64_t step = sizes.automatic->step;  // sides of clips that are not enlarged
      out.push_back({sizes.frames, step, step});
    }
  };
  if (sets.empty()) {
    add(run);
  }
  for (const SetRules& set : sets) {
    add(set.sizes);
  }
  return out;
}

ClipBuckets bucket_sets(const ClipSet& clips, int64_t count, const SampleSizes& run,
                        const ClipFormat& format, const std::function<ClipSize(int64_t)>& measure,
                        int threads,
                        const std::function<void(int64_t, const std::string&)>& on_problem) {
  std::vector<Choices> of_sets;
  for (const SetRules& set : clips.sets()) {
    of_sets.push_back(choices(set.sizes, run, format));
  }
  std::vector<Bucket> own(static_cast<size_t>(count));
  std::vector<std::string> problems(own.size());
  for_each_in_parallel(own.size(), threads, [&](size_t i) {
    const auto clip = static_cast<int64_t>(i);
    try {
      own[i] = of_sets.at(clips.set_of(clip)).of(measure(clip), clips.path(clip), format);
    } catch (const Error& error) {
      problems[i] = error.what();
    }
  });
  ClipBuckets out;
  for (size_t i = 0; i < own.size(); ++i) {  // in order, regardless of the threads' speed
    if (!problems[i].empty()) {
      out.bucket_of.push_back(-1);
      on_problem(static_cast<int64_t>(i), problems[i]);
      continue;
    }
    const auto found = std::ranges::find(out.buckets, own[i]);
    out.bucket_of.push_back(found - out.buckets.begin());
    if (found == out.buckets.end()) {
      out.buckets.push_back(own[i]);
    }
  }
  return out;
}

}  // namespace kinema::data
