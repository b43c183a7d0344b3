#pragma once

#include <cstdint>
#include <optional>
#include <string>

/// Limits of this process that look like a lack of memory or of threads.
namespace kinema {

/// The limit of the address space (`ulimit -v`), bytes; nothing: none. It counts what is mapped or
/// reserved, such as files of weights and the stacks of threads, whether memory is behind it or
/// not.
std::optional<int64_t> address_space_limit();

/// The remedy where no thread can be made: to raise the limit that was reached.
std::string thread_remedy();

/// The second line of an error about a failed allocation or mapping: to raise the limit of the
/// address space. Empty without such a limit.
std::string memory_remedy();

}  // namespace kinema
