#pragma once

#include "kinema/job/job.h"
#include "kinema/jobs/plan.h"
#include "kinema/pjrt/client.h"
#include "kinema/planning/tile_search.h"
#include "kinema/resolve/settings.h"

namespace kinema::jobs {

/// With enable_tile_search: times block sizes for the attention that a run of this configuration
/// has most of, on the run's own device, and returns the configuration with flash_block_sizes set
/// to the fastest; the table goes into `tile_search_out`. Else, and for attention whose kernels
/// have no block sizes to choose (GPUs), the configuration as it is.
resolve::Settings with_fastest_tiles(const resolve::Settings& settings, PlanMode mode,
                                     const pjrt::Client& client, const Job& job);

/// The table of a search in a folder; nothing where the folder is empty. Before a search, which may
/// take long: throws an Error where a file of that name is something else.
void check_tile_table(const std::filesystem::path& folder);
void write_tile_table(const std::filesystem::path& folder,
                      const std::vector<planning::TileTable>& tables);

}  // namespace kinema::jobs
