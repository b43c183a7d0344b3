#pragma once

#include <string>
#include <string_view>

#include "kinema/core/trace.h"

/// Profiler recordings, for TensorBoard's profile page (XSpace) and Perfetto (JSON).
namespace kinema::records {

/// A serialized `tensorflow.profiler.XSpace` with the plugin's recording (may be empty) and the
/// host's threads, as lines of the plane `/host:CPU`; times are relative to the recording's start.
/// Throws an Error if the plugin's bytes are not an XSpace.
std::string merge_recordings(std::string_view plugin, const trace::Recording& host,
                             const std::string& host_name);

/// The same as Chrome's trace JSON: one process per plane, one thread per line, in microseconds,
/// with each event's data as its `args`. Throws an Error for bytes that are not an XSpace.
std::string chrome_trace(std::string_view xspace);

}  // namespace kinema::records
