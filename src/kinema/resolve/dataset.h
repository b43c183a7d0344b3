#pragma once

#include <cstdint>

#include "kinema/config/config.h"
#include "kinema/data/split.h"
#include "kinema/datasets/dataset.h"
#include "kinema/job/job.h"
#include "kinema/networks/network.h"
#include "kinema/pjrt/client.h"
#include "kinema/resolve/settings.h"

/// Which data sets a configuration names.
namespace kinema::resolve {

/// The clips of train_data_dir or, with `dataset_type: hf`, of dataset_name. `part`: of eval_split.
/// Throws an Error for `buckets: auto`, which is for records.
datasets::ClipSettings clip_settings(const config::Config& config,
                                     data::Split::Part part = data::Split::Part::ALL);

/// The configuration with local copies for a train_data_dir, and where evaluations are made an
/// eval_data_dir, in a store. TFRecords of more bytes than remote::records_to_copy() are read from
/// the store.
config::Loaded with_local_data(config::Loaded loaded, const Job& job);

/// The settings that train on the clips in `folder` of this machine. Throws an Error for a folder
/// of no clips.
Settings with_clips(const Settings& settings, const std::string& folder);

/// Samples that are read for a batch on one device.
int64_t samples_of_one_device(const config::Config& config);

/// The samples that a network is trained on, `batch` of them a batch.
datasets::Dataset training_dataset(const config::Config& config, const networks::Sizes& model,
                                   int64_t batch);

/// The samples of eval_data_dir, in order: TFRecords, or clips where it holds media files or a list
/// of them; with eval_split, those of the training's set that are kept out.
datasets::Dataset evaluation_dataset(const config::Config& config, const networks::Sizes& model,
                                     int64_t batch);

/// What is told about the clips of an evaluation.
datasets::ClipReport evaluation_report();

/// The encoders that make samples of clips for a network, on the client's first device.
datasets::ClipEncoders clip_encoders(const config::Config& config, const networks::Sizes& model,
                                     const pjrt::Client& client, const Job& job);

}  // namespace kinema::resolve
