#pragma once

#include "kinema/config/config.h"
#include "kinema/pjrt/client.h"
#include "kinema/runs/job.h"
#include "kinema/runs/plan.h"

namespace kinema::runs {

/// With enable_tile_search: times block sizes for the attention that a run of this configuration
/// has most of, on the run's own device, and returns the configuration with flash_block_sizes set
/// to the fastest; the table goes into `tile_search_out`. Else, and for attention whose kernels
/// have no block sizes to choose (GPUs), the configuration as it is.
config::Loaded with_fastest_tiles(config::Loaded loaded, PlanMode mode, const pjrt::Client& client,
                                  const Job& job);

}  // namespace kinema::runs
