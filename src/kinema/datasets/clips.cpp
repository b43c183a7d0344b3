#include "kinema/datasets/clips.h"

#include <algorithm>
#include <utility>

#include "kinema/stores/local_copies.h"

namespace kinema::datasets {
namespace {

bool has_one_frame(const data::Bucket& bucket) { return bucket.frames == 1; }

std::unique_ptr<data::ClipSet> open_all(const ClipSettings& settings, const Job& job) {
  if (!settings.hub) {
    const bool images = settings.order.format.num_frames == 1 ||
                        std::ranges::any_of(settings.buckets, has_one_frame);
    return data::folder_clips(settings.folder, settings.caption_column, /*keep_bad=*/true, images,
                              settings.split_name);
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

std::unique_ptr<data::ClipSet> open_clips(const ClipSettings& settings, const Job& job) {
  return data::split_clips(open_all(settings, job), settings.split, settings.name);
}

const char* clip_noun(const ClipSettings& settings) {
  const bool pictures = settings.buckets.empty()
                            ? settings.order.format.num_frames == 1
                            : std::ranges::all_of(settings.buckets, has_one_frame);
  return pictures ? "picture" : "clip";
}

}  // namespace kinema::datasets
