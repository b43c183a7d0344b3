#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kinema/checkpoints/checkpoint_folder.h"

/// Whether what a run will save fits on the disk: asked before anything is encoded or loaded.
namespace kinema::checkpoints {

struct CheckpointSpace {
  std::filesystem::path folder;
  int64_t bytes = 0;      ///< of one checkpoint
  int64_t most = 0;       ///< more than there are now, at once
  int64_t available = 0;  ///< bytes free where they will lie
  Keep keep;
};

/// Looks at the disk of `folder`, or where that is not there yet, of the nearest folder that is.
CheckpointSpace checkpoint_space(const std::filesystem::path& folder, int64_t bytes,
                                 const SavedSteps& run, const Keep& keep);

/// `checkpoints: 170.3 GB each, the newest 2 are kept, 812.0 GB are free`; empty where none will be
/// written.
std::string describe(const CheckpointSpace& space);

/// Throws an Error where not one checkpoint fits; a warning where those that are kept do not.
std::vector<std::string> check_space(const CheckpointSpace& space);

}  // namespace kinema::checkpoints
