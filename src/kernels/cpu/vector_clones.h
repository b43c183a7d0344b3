#pragma once

// A function compiled once per instruction set; the fitting one is chosen when the program starts.
// Sanitizers instrument the choice itself and cannot run it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
#define KINEMA_VECTOR_CLONES
#else
#define KINEMA_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
