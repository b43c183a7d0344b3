#pragma once

#include <cstdint>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/job/job.h"
#include "kinema/resolve/settings.h"

/// Shows a data set as a training run sees it.
namespace kinema::jobs {

struct Preview {
  HostArray sheet;      // u8 [h, w, 3]
  int64_t samples = 0;  // on the sheet
  int64_t of = 0;       // samples per epoch
  /// Unusable clips that skip_bad_clips does not skip: `train` would stop at them.
  int64_t bad_clips = 0;
};

/// A contact sheet of the first samples of `path` as `train` uses them with this configuration on
/// one device, in its order: rotated, over the background, tone-mapped, resized to their size or
/// bucket, cropped and mirrored; of videos several frames, from first to last. The text below each
/// has its path, size and caption. Unusable clips are logged and skipped. The model is not loaded.
/// Throws an Error if the path is not a data set of clips, or has no usable one.
Preview preview(const resolve::Settings& settings, const std::string& path, int64_t samples,
                const Observer& observer);

}  // namespace kinema::jobs
