#pragma once

#include "kinema/graph/emit.h"
#include "kinema/kernels/cpu/lowering.h"

namespace kinema::kernels {

/// Emits a `fused` node as a call of the kernel with its name; false if no kernel supports these
/// operands. Throws an Error if the settings are not of the type that settings.h lists for the
/// name.
bool write_fused(const Node& node, Emitter& out, const CpuLoweringOptions& options);

}  // namespace kinema::kernels
