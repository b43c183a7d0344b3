#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kinema/config/buckets.h"
#include "kinema/config/data_config.h"

namespace kinema::config {

/// An entry of `datasets`: a folder of clips, and the keys of the run that differ for it.
struct DatasetEntry {
  std::string path;
  std::string metadata;  // a list of clips; empty: the folder's metadata or caption files
  double weight = 0;     // relative to the other entries; 0: none is given
  int64_t repeats = 1;   // of each clip in an epoch
  std::optional<int64_t> height, width, bucket_area, bucket_step, bucket_min, bucket_max;
  std::optional<Buckets> buckets;
  std::optional<bool> bucket_upscale, random_flip, color_aug, alpha_mask;
  std::string mask_dir;
  bool regularization = false;  // its samples have the weight prior_loss_weight in the loss
  std::string caption;          // of clips without one
  std::string caption_extension, caption_prefix, caption_suffix;
  std::optional<bool> caption_any_line, caption_wildcards, caption_shuffle_tags;
  std::optional<double> caption_tag_dropout;
  std::optional<std::string> caption_separator, caption_keep_separator;
  std::optional<int64_t> caption_keep_tags;
};

/// Parses `datasets`; [] is no entry. Throws an Error that names the entry and the key for an
/// unknown key, a value of another type or out of range, an entry without a path, and weights of
/// only some entries.
std::vector<DatasetEntry> read_datasets(const DataConfig& config);

}  // namespace kinema::config
