#pragma once

#include <cstdint>

#include "kinema/replay/chunk.h"

namespace kinema::replay {

/// One of several successive parts of sampled windows: values [rows, count * length + context, ...]
/// -> steps number * length on, [rows, length + context, ...], so that each part begins with the
/// last `context` steps of the one before it. `consec` S32 [rows, length + context] is the part's
/// number. Throws an Error where the windows are too short.
Arrays window_part(const Arrays& windows, int64_t number, int64_t length, int64_t context);

}  // namespace kinema::replay
