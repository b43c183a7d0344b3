#pragma once

#include "kinema/config/config.h"
#include "kinema/job/job.h"
#include "kinema/stores/run_stores.h"

/// Keys with paths in stores (gs://, s3://).
namespace kinema::resolve {

/// Throws an Error that names a key whose path must be local.
void check_store_keys(const config::Loaded& loaded);

/// The folders and files that a training run with these keys writes.
stores::RunOutputs run_outputs(const config::Config& config);
/// The configuration with these paths for the keys of run_outputs.
config::Loaded with_outputs(config::Loaded loaded, const stores::RunOutputs& outputs);

/// For a run whose output_dir or checkpoint_dir is in a store: downloads the requested checkpoint
/// and returns the configuration with its local path; video_folder becomes the run's own if it is
/// not given.
config::Loaded with_local_checkpoint(config::Loaded loaded, const Job& job);

}  // namespace kinema::resolve
