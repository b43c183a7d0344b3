#pragma once

#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/io/tfrecord_ranges.h"
#include "kinema/runs/job.h"

/// What a run's data sets are, and where they lie.
namespace kinema::runs {

/// The configuration with local copies for a train_data_dir, and where evaluations are made an
/// eval_data_dir, in a store. TFRecords of more bytes than remote::records_to_copy() are read from
/// the store.
config::Loaded with_local_data(config::Loaded loaded, const Job& job);

/// TFRecords of a folder in a store, which are read from there.
std::vector<io::RangedTfRecords> stored_records(const std::string& path, const Job& job);

}  // namespace kinema::runs
