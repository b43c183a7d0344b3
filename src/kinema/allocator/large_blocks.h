#pragma once

#include <cstdint>

/// The malloc of a program: linked into executables (CMake: kinema_allocator, objects), never into
/// a library, whose host keeps its own.
namespace kinema::allocator {

/// Makes this process keep the large memory blocks it frees and hand them out again.
///
/// XLA's CPU client takes its buffers from aligned_alloc on each run. glibc maps and zeroes large
/// ones anew each time, or, when told to keep them, cannot fit an aligned block into the gap of an
/// equal one and grows. From here on, aligned blocks of 256 KiB and more come from a pool of whole
/// pages that reuses by size (see BlockPool); everything else stays glibc's. malloc_trim gives back
/// what the pool holds idle, too.
///
/// All functions of malloc's family are replaced, as glibc asks of who replaces one (glibc manual,
/// Replacing malloc). False, and nothing changes, in a sanitizer build and with another C library.
/// Calling it again does nothing.
bool keep_large_blocks();

/// What the pool holds, in bytes, and how often it could serve from what it held.
struct LargeBlocks {
  int64_t live_bytes = 0;
  int64_t most_live_bytes = 0;  // since the process began
  int64_t idle_bytes = 0;
  int64_t reused = 0;
  int64_t mapped = 0;
};

LargeBlocks large_blocks();

}  // namespace kinema::allocator
