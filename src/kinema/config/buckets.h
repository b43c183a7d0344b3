#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kinema/config/data_config.h"
#include "kinema/io/json.h"

namespace kinema::config {

/// The value of `buckets`.
struct Buckets {
  /// True if samples of several sizes form separate batches.
  bool on = false;
  /// Frames, height, width of each; empty: `auto`, the sizes of the records.
  std::vector<std::array<int64_t, 3>> sizes;
};

/// Parses a value of `buckets`: [], auto, or a list of different [81, 480, 832] or 81x480x832; a
/// single size needs no list. Throws an Error with the given value.
Buckets read_buckets(const io::Json& json);
/// The same of the run's `buckets`.
Buckets read_buckets(const DataConfig& config);

}  // namespace kinema::config
