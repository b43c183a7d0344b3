#pragma once

#include "kinema/graph/emit.h"

namespace kinema::kernels {

/// Writes a half-precision product with its bias, optionally followed by GELU, in the form that XLA
/// maps to one cuBLASLt call, which rounds once at the end: `node` is the conversion to half
/// precision after product and bias, or the GELU. Written as in the graph, the product plus bias
/// would be stored in f32 and read again for rounding. False if the node is neither.
bool write_epilogue(const Node& node, Emitter& out);

}  // namespace kinema::kernels
