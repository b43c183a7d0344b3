#pragma once

#include "kernels/interpreter/program.h"

namespace kinema::interpreter {

/// vector.* and tpu.*; add_arithmetic() goes before.
void add_mosaic_vectors(Rules* rules);
/// vector.load, tpu.vector_store, memref.*
void add_mosaic_memory(Rules* rules);

}  // namespace kinema::interpreter
