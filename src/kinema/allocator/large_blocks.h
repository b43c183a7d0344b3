#pragma once

#include <cstdint>

/// The program's malloc: linked into executables (CMake: kinema_allocator, objects), never into a
/// library, whose host has its own.
namespace kinema::allocator {

/// Makes this process keep freed large memory blocks and reuse them.
///
/// XLA's CPU client allocates its buffers with aligned_alloc on each run. glibc maps and zeroes
/// large ones anew each time; if told to keep them, it cannot fit an aligned block into the gap of
/// an equal one, and memory grows. After this call, aligned blocks of 256 KiB and more come from a
/// pool of whole pages that reuses them by size (see BlockPool). Everything else goes to tcmalloc,
/// with which XLA compiles faster, or to an allocator that LD_PRELOAD names (see NextMalloc).
/// malloc_trim also returns the pool's idle blocks.
///
/// All functions of malloc's family are replaced, as glibc requires (glibc manual, Replacing
/// malloc). Returns false and changes nothing in a sanitizer build. A second call does nothing.
bool keep_large_blocks();

/// What the pool holds, in bytes, and how often it could reuse a block.
struct LargeBlocks {
  int64_t live_bytes = 0;
  int64_t most_live_bytes = 0;  // since the process began
  int64_t idle_bytes = 0;
  int64_t reused = 0;
  int64_t mapped = 0;
};

LargeBlocks large_blocks();

}  // namespace kinema::allocator
