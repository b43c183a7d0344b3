#pragma once

#include <vector>

#include "pjrt/hlo.pb.h"

namespace kinema::pjrt {

/// A computation's instructions in the order in which a device starts them, if the program has a
/// schedule; else as stored. Throws an Error for a schedule that is not a permutation of them.
std::vector<const wire::HloInstruction*> instructions_in_order(
    const wire::HloModule& module, const wire::HloComputation& computation);

}  // namespace kinema::pjrt
