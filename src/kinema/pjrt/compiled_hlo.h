#pragma once

#include <string>

#include "kinema/pjrt/executable.h"

namespace kinema::pjrt {

/// An optimized program as text, one line per instruction, in the order of its schedule: `  %dot.3
/// = f32[2,4]{1,0} dot(%p0, %p1)  // blocks/attn1/to_q`. Constants' values, attributes and backend
/// settings are omitted. Throws an Error for bytes that are not an HLO module.
std::string hlo_text(const OptimizedProgram& program);

}  // namespace kinema::pjrt
