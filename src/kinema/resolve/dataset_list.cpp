#include "kinema/resolve/dataset_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kinema/config/buckets.h"
#include "kinema/config/datasets.h"
#include "kinema/core/error.h"
#include "kinema/remote/store.h"

namespace kinema::resolve {
namespace {

std::vector<data::Bucket> sizes_of(const config::Buckets& buckets) {
  std::vector<data::Bucket> out;
  for (const auto& [frames, height, width] : buckets.sizes) {
    out.push_back({frames, height, width});
  }
  return out;
}

/// The run's keys of sizes by aspect ratio; an area of 0 is that of height and width.
data::AutoBuckets automatic_keys(const config::DataConfig& d) {
  return {.area = d.bucket_area,
          .step = d.bucket_step,
          .min_side = d.bucket_min,
          .max_side = d.bucket_max,
          .upscale = d.bucket_upscale};
}

data::DatasetPart part_of(const config::DatasetEntry& entry, const std::string& where) {
  check(
      !remote::is_store_path(entry.path),
      "[config] {}: {} is in a store, which `datasets` does not read\n  copy it to a local folder",
      where, entry.path);
  data::DatasetPart out{.folder = entry.path,
                        .list = entry.metadata,
                        .repeats = entry.repeats,
                        .class_words = entry.caption,
                        .caption_extension = entry.caption_extension,
                        .caption_prefix = entry.caption_prefix,
                        .caption_suffix = entry.caption_suffix,
                        .where = where};
  out.folders = true;
  out.rules.weight = entry.weight;
  out.rules.flip = entry.random_flip;
  out.rules.color_change = entry.color_aug;
  out.rules.alpha_mask = entry.alpha_mask;
  out.rules.regularization = entry.regularization;
  out.masks = entry.mask_dir;
  out.captions = {.wildcards = entry.caption_wildcards,
                  .shuffle = entry.caption_shuffle_tags,
                  .any_line = entry.caption_any_line,
                  .dropout = entry.caption_tag_dropout,
                  .separator = entry.caption_separator,
                  .keep_separator = entry.caption_keep_separator,
                  .keep = entry.caption_keep_tags};
  out.sizes = {.height = entry.height,
               .width = entry.width,
               .area = entry.bucket_area,
               .step = entry.bucket_step,
               .min_side = entry.bucket_min,
               .max_side = entry.bucket_max,
               .upscale = entry.bucket_upscale};
  if (entry.buckets) {
    out.sizes.buckets = sizes_of(*entry.buckets);
    out.sizes.automatic = entry.buckets->on && entry.buckets->sizes.empty();
  }
  return out;
}

/// train_data_dir as a data set among others.
data::DatasetFile trained_folder(const config::Config& config) {
  data::DatasetPart part{.folder = config.data.train_data_dir, .where = "train_data_dir"};
  part.folders = true;
  return {.parts = {std::move(part)}};
}

/// Adds reg_data_dir, and sets the weights of regularization pictures.
void add_regularization(const config::DataConfig& d, data::DatasetFile& sets) {
  if (!d.reg_data_dir.empty()) {
    check(std::ranges::all_of(sets.parts,
                              [](const data::DatasetPart& each) { return each.rules.weight == 0; }),
          "[config] reg_data_dir is given, but datasets have weights\n  give it as an entry with "
          "regularization: true and a weight");
    data::DatasetPart part{.folder = d.reg_data_dir, .where = "reg_data_dir"};
    part.folders = true;
    part.rules.regularization = true;
    sets.parts.push_back(std::move(part));
  }
  for (data::DatasetPart& part : sets.parts) {
    if (part.rules.regularization) {
      part.rules.loss_weight = d.prior_loss_weight;
      part.no_masks = part.masks.empty();
    }
  }
}

data::DatasetFile listed(const config::Config& config,
                         const std::vector<config::DatasetEntry>& entries) {
  const config::DataConfig& d = config.data;
  check(d.train_data_dir.empty(),
        "[config] both datasets and train_data_dir ({}) are given\n  datasets=[{{path: {}}}, ...] "
        "has all data sets",
        d.train_data_dir, d.train_data_dir);
  check(d.dataset_type == config::DatasetType::VIDEOS,
        "[config] datasets is for dataset_type videos or images, but it is {}",
        config::word_of(d.dataset_type));
  data::DatasetFile out;
  for (size_t i = 0; i < entries.size(); ++i) {
    out.parts.push_back(part_of(entries[i], fmt::format("datasets[{}]", i)));
  }
  return out;
}

/// The sets for evaluation.
data::DatasetFile as_they_are(data::DatasetFile sets) {
  std::erase_if(sets.parts,
                [](const data::DatasetPart& part) { return part.rules.regularization; });
  for (data::DatasetPart& part : sets.parts) {
    part.rules = {.alpha_mask = part.rules.alpha_mask};
    part.captions.shuffle = false;
    part.captions.dropout = 0;
  }
  return sets;
}

}  // namespace

data::SampleSizes sample_sizes(const config::Config& config) {
  const config::DataConfig& d = config.data;
  const config::Buckets wanted = config::read_buckets(d);
  if (!wanted.on || !wanted.sizes.empty()) {
    return {.buckets = sizes_of(wanted), .automatic = std::nullopt};
  }
  data::AutoBuckets out = automatic_keys(d);
  if (out.area == 0) {
    out.area = config.generate.height * config.generate.width;
  }
  out.check_values();
  return {.buckets = {}, .automatic = out};
}

std::optional<data::DatasetFile> dataset_list(const config::Config& config,
                                              const data::ClipFormat& format,
                                              data::Split::Part held) {
  const config::DataConfig& d = config.data;
  const std::vector<config::DatasetEntry> entries = config::read_datasets(d);
  const bool is_file =
      d.dataset_type == config::DatasetType::VIDEOS && data::is_dataset_file(d.train_data_dir);
  if (entries.empty() && !is_file && d.reg_data_dir.empty()) {
    return std::nullopt;
  }
  check(d.reg_data_dir.empty() || d.dataset_type == config::DatasetType::VIDEOS,
        "[config] reg_data_dir is for dataset_type videos or images, but it is {}",
        config::word_of(d.dataset_type));
  data::DatasetFile out = !entries.empty() ? listed(config, entries)
                          : is_file        ? data::read_dataset_file(d.train_data_dir)
                                           : trained_folder(config);
  add_regularization(d, out);
  if (held == data::Split::Part::HELD_OUT) {
    return as_they_are(std::move(out));
  }
  const data::SampleSizes run = sample_sizes(config);
  for (data::DatasetPart& part : out.parts) {
    part.rules.sizes = data::own_sizes(part.sizes, run, automatic_keys(d), format, part.where);
  }
  return out;
}

}  // namespace kinema::resolve
