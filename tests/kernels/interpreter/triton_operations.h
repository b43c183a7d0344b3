#pragma once

#include "kernels/interpreter/program.h"

namespace kinema::interpreter {

/// tt.* on tensors; call add_arithmetic() first.
void add_triton_tensors(Rules* rules);
/// tt.addptr, tt.load, tt.store
void add_triton_memory(Rules* rules);

}  // namespace kinema::interpreter
