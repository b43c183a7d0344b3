#pragma once

#include <cstdint>
#include <vector>

#include "pjrt/hlo.pb.h"

namespace kinema::pjrt {

/// The groups of partitions of a collective, in any of their four forms. Empty if none are given,
/// which means one group of all. Throws an Error for inconsistent groups.
std::vector<std::vector<int64_t>> device_groups(const wire::HloInstruction& instruction);

}  // namespace kinema::pjrt
