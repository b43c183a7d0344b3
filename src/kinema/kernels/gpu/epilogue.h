#pragma once

#include "kinema/graph/emit.h"

namespace kinema::kernels {

/// Writes a product of half floats with its bias, and GELU behind both, in the form that XLA hands
/// to cuBLASLt as one call, which rounds once, when all is done: `node` is the conversion to half
/// floats behind product and bias, or the GELU. Written as they stand in the graph, product and
/// bias leave in f32, and are read again to be rounded. False where it is neither.
bool write_epilogue(const Node& node, Emitter& out);

}  // namespace kinema::kernels
