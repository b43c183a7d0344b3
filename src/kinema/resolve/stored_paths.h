#pragma once

#include "kinema/config/config.h"
#include "kinema/job/job.h"
#include "kinema/stores/run_stores.h"

/// Keys whose paths lie in stores (gs://, s3://).
namespace kinema::resolve {

/// Throws an Error that names a key whose path must be one of this machine.
void check_store_keys(const config::Loaded& loaded);

/// Where a training run with these keys writes.
stores::RunOutputs run_outputs(const config::Config& config);
/// The configuration with these paths for the keys of run_outputs.
config::Loaded with_outputs(config::Loaded loaded, const stores::RunOutputs& outputs);

/// Of a run whose output_dir or checkpoint_dir is in a store: downloads the checkpoint that is
/// asked for and returns the configuration that names it; video_folder becomes the run's own where
/// none is given.
config::Loaded with_local_checkpoint(config::Loaded loaded, const Job& job);

}  // namespace kinema::resolve
