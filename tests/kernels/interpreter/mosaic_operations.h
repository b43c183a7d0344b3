#pragma once

#include "kernels/interpreter/program.h"

namespace kinema::interpreter {

/// vector.* and tpu.*; call add_arithmetic() first.
void add_mosaic_vectors(Rules* rules);
/// vector.load, tpu.vector_store, memref.*
void add_mosaic_memory(Rules* rules);

}  // namespace kinema::interpreter
