#include "kinema/datasets/clips.h"

#include <algorithm>
#include <utility>

#include "kinema/stores/local_copies.h"

namespace kinema::datasets {
namespace {

bool has_one_frame(const data::Bucket& bucket) { return bucket.frames == 1; }

std::vector<data::SetRules> rules_of(const std::optional<data::DatasetFile>& sets) {
  std::vector<data::SetRules> out;
  if (sets) {
    for (const data::DatasetPart& part : sets->parts) {
      out.push_back(part.rules);
    }
  }
  return out;
}

std::unique_ptr<data::ClipSet> open_all(const ClipSettings& settings, const Job& job) {
  if (!settings.hub) {
    const data::SampleSizes run{.buckets = settings.buckets, .automatic = settings.automatic};
    const data::ListOptions options{.caption_column = settings.caption_column,
                                    .missing = data::MissingClip::Keep,
                                    .images = data::takes_pictures(run, settings.order.format),
                                    .split = settings.split_name,
                                    .mask_folder = settings.mask_folder};
    return settings.sets ? data::dataset_clips(*settings.sets, options, settings.order.format)
                         : data::folder_clips(settings.folder, options);
  }
  data::HfOptions options = *settings.hub;
  if (settings.downloads) {
    options.whole_paths = false;
    options.folder = stores::local_dataset(
        settings.name,
        [options](std::vector<std::string> names) {
          return data::choose_hf_files(std::move(names), options);
        },
        job);
  }
  return data::hf_clips(options);
}

}  // namespace

bool ClipSettings::has_own_sizes() const { return data::have_own_sizes(rules_of(sets)); }

std::vector<data::Bucket> ClipSettings::possible_sizes() const {
  return data::possible_sizes(rules_of(sets), {.buckets = buckets, .automatic = automatic},
                              order.format);
}

bool ClipSettings::flips() const {
  const auto flips = [&](const data::DatasetPart& part) {
    return part.rules.flip.value_or(order.random_flip);
  };
  return sets ? std::ranges::any_of(sets->parts, flips) : order.random_flip;
}

bool ClipSettings::changes_colors() const {
  const auto changes = [&](const data::DatasetPart& part) {
    return part.rules.color_change.value_or(order.color_change);
  };
  return sets ? std::ranges::any_of(sets->parts, changes) : order.color_change;
}

std::unique_ptr<data::ClipSet> open_clips(const ClipSettings& settings, const Job& job) {
  return data::split_clips(open_all(settings, job), settings.split, settings.name);
}

const char* clip_noun(const ClipSettings& settings) {
  return std::ranges::all_of(settings.possible_sizes(), has_one_frame) ? "picture" : "clip";
}

}  // namespace kinema::datasets
