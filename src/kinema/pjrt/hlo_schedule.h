#pragma once

#include <vector>

#include "pjrt/hlo.pb.h"

namespace kinema::pjrt {

/// A computation's instructions in the order in which a device begins them, where the program has
/// one; else as they are given. Throws an Error for an order that is none of them all.
std::vector<const wire::HloInstruction*> instructions_in_order(
    const wire::HloModule& module, const wire::HloComputation& computation);

}  // namespace kinema::pjrt
