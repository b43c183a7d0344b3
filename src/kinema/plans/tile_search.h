#pragma once

#include "kinema/job/job.h"
#include "kinema/pjrt/client.h"
#include "kinema/planning/tile_search.h"
#include "kinema/plans/plan.h"
#include "kinema/resolve/settings.h"

namespace kinema::plans {

/// With enable_tile_search: times block sizes for the run's most frequent attention call on its own
/// device, writes the table to `tile_search_out`, and returns the configuration with
/// flash_block_sizes set to the fastest. Else, and for attention kernels without block sizes
/// (GPUs), returns the configuration unchanged.
resolve::Settings with_fastest_tiles(const resolve::Settings& settings, PlanMode mode,
                                     const pjrt::Client& client, const Job& job);

/// Throws an Error if the folder has a file with the table's name that is something else; called
/// before a search, which may take long. Returns nothing if the folder is empty.
void check_tile_table(const std::filesystem::path& folder);
void write_tile_table(const std::filesystem::path& folder,
                      const std::vector<planning::TileTable>& tables);

}  // namespace kinema::plans
