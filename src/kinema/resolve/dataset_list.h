#pragma once

#include <optional>

#include "kinema/config/config.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/dataset_file.h"
#include "kinema/data/set_rules.h"
#include "kinema/data/split.h"

namespace kinema::resolve {

/// The run's sizes of samples.
data::SampleSizes sample_sizes(const config::Config& config);

/// The data sets of `datasets`, of a TOML file in train_data_dir, or of train_data_dir and
/// reg_data_dir, with their sizes; nothing for one data set. `format` is that of the run. Held-out
/// clips have the run's size, are as they are, and have no weights; regularization pictures are not
/// among them. Throws an Error for `datasets` in addition to train_data_dir or of another
/// dataset_type, and for impossible sizes.
std::optional<data::DatasetFile> dataset_list(const config::Config& config,
                                              const data::ClipFormat& format,
                                              data::Split::Part part);

}  // namespace kinema::resolve
