#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/data/buckets.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/split.h"
#include "kinema/runs/job.h"

namespace kinema::runs {

/// True where samples are clips that are encoded here.
bool has_clips(const config::DataConfig& data);

/// The clips of train_data_dir or, with dataset_type hf, dataset_name: of a data set on the hub,
/// from its cache. Images are among them where a sample of one frame is asked for. Throws an Error
/// for those that cannot be read; not for single clips that are missing or have no caption: whoever
/// reads one gets that. `part`: of eval_split.
std::unique_ptr<data::ClipSet> open_clips(const config::Config& config, const Job& job = {},
                                          data::Split::Part part = data::Split::Part::ALL);

/// A part of eval_split.
data::Split split_of(const config::Config& config, data::Split::Part part);

/// Which frames of a clip a sample has, and their size, buckets aside.
data::ClipFormat clip_format(const config::Config& config);

/// What one of the clips is called in messages: of one frame, a `picture`, else a `clip`.
const char* clip_noun(const config::Config& config);

/// What those are called in messages.
std::string clips_name(const config::DataConfig& data);

/// The sizes of `buckets`; none where it is []. Throws an Error for auto, which has none.
std::vector<data::Bucket> bucket_sizes(const config::DataConfig& data);

}  // namespace kinema::runs
