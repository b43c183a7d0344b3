#pragma once

#include <cstddef>
#include <span>

/// Handles mapped files that cannot be read later: another process truncated the file, or the disk
/// failed.
///
/// The kernel then sends SIGBUS to the thread that accesses the page. A handler, if the program
/// installed it (guard_mappings), maps zero pages over such a mapping and marks it, so that the
/// reader continues; readers call `check_intact` after reading.
namespace kinema::io::mapping_guard {

/// Watches a mapping until it is unmapped. Returns a slot for `remove`, or -1 if it is not watched:
/// without a handler, or with too many mappings.
int add(const std::byte* data, size_t size);
void remove(int slot);

/// True if the mapping of `data` could not be read since it was mapped.
bool is_damaged(const std::byte* data);

}  // namespace kinema::io::mapping_guard
