#pragma once

#include <cstdint>
#include <vector>

#include "kinema/data/buckets.h"
#include "kinema/data/clip_set.h"

namespace kinema::data {

/// Sizes for clips of any aspect ratio, of about equal area, as kohya's scripts choose them.
struct AutoBuckets {
  int64_t area = 0;   // most pixels of a size
  int64_t step = 64;  // sides are multiples of it
  int64_t min_side = 256;
  int64_t max_side = 2048;
  /// Enlarge clips with fewer pixels; else their size is their own, rounded down to multiples.
  bool upscale = true;

  /// Throws an Error if no size is possible.
  void check_values() const;
};

/// The sizes, all with these frames: the square, and for each side from min_side to max_side the
/// longest other side that the area allows.
std::vector<Bucket> auto_buckets(const AutoBuckets& options, int64_t frames);

/// The size of a clip: that of `all` (auto_buckets) with the nearest aspect ratio, or a small
/// clip's own. Throws an Error for a clip with a side below one step that is not enlarged.
Bucket auto_bucket(const AutoBuckets& options, const std::vector<Bucket>& all,
                   const ClipSize& clip);

}  // namespace kinema::data
