#pragma once

#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/io/tfrecord_ranges.h"

/// What a run's data sets are, and where they lie.
namespace kinema::cli {

/// Puts copies in the place of train_data_dir, and of eval_data_dir where evaluations are made,
/// that are paths of stores. TFRecords of more bytes than remote::records_to_copy() stay where they
/// are.
void fetch_data(config::Config& config);

/// TFRecords of a folder in a store, which are read from there.
std::vector<io::RangedTfRecords> stored_records(const std::string& path);

}  // namespace kinema::cli
