#pragma once

#include "kinema/graph/emit.h"
#include "kinema/kernels/cpu/lowering.h"

namespace kinema::kernels {

/// Writes a `fused` call as a call of the kernel of its name; false where there is none for these
/// operands. Throws an Error for a kernel's name with other settings than settings.h has for it.
bool write_fused(const Node& node, Emitter& out, const CpuLoweringOptions& options);

}  // namespace kinema::kernels
