#pragma once

#include <cstdint>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/job/job.h"
#include "kinema/resolve/settings.h"

/// A data set as a training run sees it.
namespace kinema::jobs {

struct Preview {
  HostArray sheet;      // u8 [h, w, 3]
  int64_t samples = 0;  // that are on it
  int64_t of = 0;       // an epoch
  /// Clips that cannot be used and are not left out by skip_bad_clips: `train` would stop at them.
  int64_t bad_clips = 0;
};

/// The first samples that `train` takes of `path` with this configuration on one device, in its
/// order: upright,
/// over the background, tone-mapped, brought to their size or bucket, cropped, mirrored, and of
/// clips frames from the first to the last one in time; under each where it lies, what it was and
/// its caption. Clips that cannot be used are told and left out. The model is not loaded. Throws an
/// Error for data that is no set of clips, and where none can be used.
Preview preview(const resolve::Settings& settings, const std::string& path, int64_t samples,
                const Observer& observer);

}  // namespace kinema::jobs
