#pragma once

#include <cstdint>

#include "kinema/config/config.h"
#include "kinema/data/split.h"
#include "kinema/datasets/dataset.h"
#include "kinema/job/job.h"
#include "kinema/model_source/text_adapters.h"
#include "kinema/networks/network.h"
#include "kinema/pjrt/client.h"
#include "kinema/resolve/settings.h"

/// The data sets of a configuration.
namespace kinema::resolve {

/// Settings of the clips of train_data_dir or, with `dataset_type: hf`, of dataset_name. `part`:
/// the training or evaluation part of eval_split.
datasets::ClipSettings clip_settings(const config::Config& config,
                                     data::Split::Part part = data::Split::Part::ALL);

/// The configuration with local copies of train_data_dir and, if the run evaluates, of
/// eval_data_dir, if they are in a store. TFRecords of more than remote::records_to_copy() bytes
/// are read from the store.
config::Loaded with_local_data(config::Loaded loaded, const Job& job);

/// The settings that train on the clips in a local `folder`. Throws an Error for a folder without
/// clips.
Settings with_clips(const Settings& settings, const std::string& folder);

/// Samples per device that are read for a batch.
int64_t samples_per_device(const config::Config& config);

/// The training samples, in batches of `batch`.
datasets::Dataset training_dataset(const config::Config& config, const networks::Sizes& model,
                                   int64_t batch);

/// The evaluation samples, in order: TFRecords or clips of eval_data_dir; with eval_split, the
/// held-out samples of the training's data set.
datasets::Dataset evaluation_dataset(const config::Config& config, const networks::Sizes& model,
                                     int64_t batch);

/// The log lines about the clips of an evaluation.
datasets::ClipReport evaluation_report();

/// The encoders that turn clips into a network's samples, on the client's first device; `trained`
/// changes the text encoders.
datasets::ClipEncoders clip_encoders(const Settings& settings, const networks::Sizes& model,
                                     const pjrt::Client& client, const Job& job,
                                     const model_source::TextAdapters& trained = {});

}  // namespace kinema::resolve
