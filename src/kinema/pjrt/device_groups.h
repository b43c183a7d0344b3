#pragma once

#include <cstdint>
#include <vector>

#include "pjrt/hlo.pb.h"

namespace kinema::pjrt {

/// The groups of partitions within which a collective works, in whichever of its four forms the
/// compiler wrote them. Empty where none are written, which means one group of all. Throws an Error
/// for groups that contradict themselves.
std::vector<std::vector<int64_t>> device_groups(const wire::HloInstruction& instruction);

}  // namespace kinema::pjrt
