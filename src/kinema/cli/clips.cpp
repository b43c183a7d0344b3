#include "kinema/cli/clips.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "kinema/cli/models.h"
#include "kinema/config/buckets.h"
#include "kinema/core/error.h"
#include "kinema/data/hf_clips.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

data::HfOptions hf_options(const config::DataConfig& d) {
  return {.folder = clips_name(d),
          .split = d.train_split,
          .data_dir = d.hf_data_dir,
          .files = d.hf_train_files.empty() ? std::vector<std::string>{}
                                            : std::vector<std::string>{d.hf_train_files},
          .media_column = d.image_column,
          .caption_column = d.caption_column};
}

}  // namespace

bool has_clips(const config::DataConfig& data) {
  return data.dataset_type == "videos" || data.dataset_type == "hf";
}

std::string clips_name(const config::DataConfig& data) {
  return data.dataset_type == "hf" && data.train_data_dir.empty() ? data.dataset_name
                                                                  : data.train_data_dir;
}

data::ClipFormat clip_format(const config::Config& config) {
  return {.height = config.generate.height,
          .width = config.generate.width,
          .num_frames = config.generate.num_frames,
          .frame_stride = config.data.frame_stride,
          .fps = config.data.target_fps};
}

std::unique_ptr<data::ClipSet> open_clips(const config::Config& config) {
  const config::DataConfig& data = config.data;
  if (data.dataset_type != "hf") {
    const std::vector<data::Bucket> buckets = bucket_sizes(data);
    const bool images =
        config.generate.num_frames == 1 ||
        std::ranges::any_of(buckets, [](const data::Bucket& each) { return each.frames == 1; });
    return data::folder_clips(data.train_data_dir, data.caption_column, /*keep_bad=*/true, images,
                              data.train_split);
  }
  data::HfOptions options = hf_options(data);
  std::error_code ignored;
  if (data.train_data_dir.empty() && !fs::exists(options.folder, ignored)) {
    options.whole_paths = false;
    options.folder = local_dataset(data.dataset_name, [options](std::vector<std::string> names) {
      return data::choose_hf_files(std::move(names), options);
    });
  }
  return data::hf_clips(options);
}

std::vector<data::Bucket> bucket_sizes(const config::DataConfig& data) {
  const config::Buckets wanted = config::read_buckets(data);
  check(!wanted.on || !wanted.sizes.empty(),
        "[config] buckets=auto keeps records of several sizes apart: clips need a list of sizes,\n"
        "  like buckets=[[81,480,832],[81,832,480]]");
  std::vector<data::Bucket> out;
  for (const auto& [frames, height, width] : wanted.sizes) {
    out.push_back({frames, height, width});
  }
  return out;
}

}  // namespace kinema::cli
