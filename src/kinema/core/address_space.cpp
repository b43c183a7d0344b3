#include "kinema/core/address_space.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstddef>

namespace kinema {
namespace {

/// The size of a new thread's stack.
size_t stack_bytes() {
  constexpr size_t kUsual = size_t{8} << 20;
  rlimit limit{};
  const bool is_limited =
      getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur > 0;
  return is_limited ? limit.rlim_cur : kUsual;
}

bool has_parameter_memory(size_t bytes) {
  void* const at =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at != MAP_FAILED && munmap(at, bytes) == 0;
}

std::string raise_limit(int64_t limit) {
  return fmt::format(
      "the address space of this process is limited to {:.1f} GB: raise that limit (`ulimit -v`)",
      static_cast<double>(limit) / 1e9);
}

}  // namespace

std::optional<int64_t> address_space_limit() {
  rlimit limit{};
  const bool is_limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? std::optional(static_cast<int64_t>(limit.rlim_cur)) : std::nullopt;
}

std::string thread_remedy() {
  const std::optional<int64_t> limit = address_space_limit();
  return limit && !has_parameter_memory(stack_bytes())
             ? raise_limit(*limit) + ", of which each thread's stack takes a part"
             : "raise its limit: `ulimit -u`, or the number of processes (pids) that the container "
               "may have";
}

std::string memory_remedy() {
  const std::optional<int64_t> limit = address_space_limit();
  return limit ? "\n  " + raise_limit(*limit) : "";
}

}  // namespace kinema
