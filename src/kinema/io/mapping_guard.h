#pragma once

#include <cstddef>
#include <span>

/// What happens when a mapped file cannot be read after all: another process made it shorter, or
/// the disk failed.
///
/// The kernel then sends SIGBUS to whoever touches the page. A handler, where the program asked for
/// it (guard_mappings), puts zero pages over such a mapping and marks it, so that the reader
/// carries on; readers ask `check_intact` after they took bytes.
namespace kinema::io::mapping_guard {

/// Watches a mapping until it is unmapped. Returns a slot for `remove`, or -1 when it stays
/// unwatched: without a handler, or where there are too many mappings.
int add(const std::byte* data, size_t size);
void remove(int slot);

/// True when the mapping that holds `data` was damaged since it was mapped.
bool is_damaged(const std::byte* data);

}  // namespace kinema::io::mapping_guard
