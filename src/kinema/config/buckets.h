#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kinema/config/data_config.h"

namespace kinema::config {

/// What `buckets` asks for.
struct Buckets {
  /// Samples of several sizes are kept apart.
  bool on = false;
  /// Frames, height, width of each; none: `auto`, the sizes that records have.
  std::vector<std::array<int64_t, 3>> sizes;
};

/// `buckets` as [], auto, or a list of [81, 480, 832] or 81x480x832, all different; one size alone
/// may stand without the list. Throws an Error that shows what was given.
Buckets read_buckets(const DataConfig& config);

}  // namespace kinema::config
