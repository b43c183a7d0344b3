#include "kinema/runs/clips.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "kinema/config/buckets.h"
#include "kinema/core/error.h"
#include "kinema/data/hf_clips.h"
#include "kinema/runs/models.h"

namespace kinema::runs {
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

std::unique_ptr<data::ClipSet> open_all(const config::Config& config, const Job& job) {
  const config::DataConfig& data = config.data;
  if (data.dataset_type != config::DatasetType::HF) {
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
    options.folder = local_dataset(
        data.dataset_name,
        [options](std::vector<std::string> names) {
          return data::choose_hf_files(std::move(names), options);
        },
        job);
  }
  return data::hf_clips(options);
}

}  // namespace

bool has_clips(const config::DataConfig& data) {
  return data.dataset_type == config::DatasetType::VIDEOS ||
         data.dataset_type == config::DatasetType::HF;
}

std::string clips_name(const config::DataConfig& data) {
  return data.dataset_type == config::DatasetType::HF && data.train_data_dir.empty()
             ? data.dataset_name
             : data.train_data_dir;
}

data::ClipFormat clip_format(const config::Config& config) {
  return {.height = config.generate.height,
          .width = config.generate.width,
          .num_frames = config.generate.num_frames,
          .frame_stride = config.data.frame_stride,
          .fps = config.data.target_fps,
          .background = io::read_background(config.data.alpha_background)};
}

const char* clip_noun(const config::Config& config) {
  const std::vector<data::Bucket> buckets = bucket_sizes(config.data);
  const bool of_one_frame =
      buckets.empty()
          ? config.generate.num_frames == 1
          : std::ranges::all_of(buckets, [](const data::Bucket& each) { return each.frames == 1; });
  return of_one_frame ? "picture" : "clip";
}

std::unique_ptr<data::ClipSet> open_clips(const config::Config& config, const Job& job,
                                          data::Split::Part part) {
  return data::split_clips(open_all(config, job), split_of(config, part), clips_name(config.data));
}

data::Split split_of(const config::Config& config, data::Split::Part part) {
  return {
      .part = part, .share = config.run.eval_split, .seed = static_cast<uint64_t>(config.run.seed)};
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

}  // namespace kinema::runs
