#pragma once

#include <string>
#include <string_view>

#include "kinema/core/trace.h"

/// Recordings of profilers: what TensorBoard's profile page (XSpace) and Perfetto (JSON) open.
namespace kinema::io {

/// A serialized `tensorflow.profiler.XSpace` of what a plugin recorded (one too; may be empty) and
/// what the host's threads did, as lines of the plane `/host:CPU`; times count from the recording's
/// begin. Throws an Error where the plugin's is none.
std::string merge_recordings(std::string_view plugin, const trace::Recording& host,
                             const std::string& host_name);

/// The same as Chrome's trace JSON: a process a plane, a thread a line, in microseconds, with what
/// is known of each event as its `args`. Throws an Error for bytes that are no XSpace.
std::string chrome_trace(std::string_view xspace);

}  // namespace kinema::io
