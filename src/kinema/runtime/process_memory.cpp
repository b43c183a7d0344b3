#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "kinema/core/address_space.h"
#include "kinema/runtime/environment.h"

namespace kinema::runtime {
namespace {

/// The number after a word in a file; nothing if it does not exist.
std::optional<int64_t> number_after(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  for (std::string word; in >> word;) {
    int64_t value = 0;
    if (word == name && in >> value) return value;
  }
  return {};
}

std::optional<int64_t> first_number(const std::string& path) {
  std::ifstream in(path);
  int64_t value = 0;
  return in >> value ? std::optional(value) : std::nullopt;  // `max` is not a number
}

/// The files with a control group's limit and usage, by the version of control groups.
struct GroupFiles {
  const char* top;
  const char* limit;
  const char* used;
  const char* files;  // keys in memory.stat: cached pages of files, which can be dropped
  const char* old_files;
};
constexpr GroupFiles kVersion1{"/sys/fs/cgroup/memory", "/memory.limit_in_bytes",
                               "/memory.usage_in_bytes", "total_active_file",
                               "total_inactive_file"};
constexpr GroupFiles kVersion2{"/sys/fs/cgroup", "/memory.max", "/memory.current", "active_file",
                               "inactive_file"};

/// The memory that a group and its parents leave to this process; cached pages that can be dropped
/// count as free.
int64_t group_bytes(const GroupFiles& group, std::string path) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (;; path.erase(path.rfind('/'))) {
    const std::string folder = group.top + (path == "/" ? "" : path);
    const auto limit = first_number(folder + group.limit);
    const auto used = first_number(folder + group.used);
    if (limit && used) {
      const std::string stat = folder + "/memory.stat";
      const int64_t files = number_after(stat, group.files).value_or(0) +
                            number_after(stat, group.old_files).value_or(0);
      least = std::min(least, std::max<int64_t>(0, *limit - (*used - files)));
    }
    if (path.empty() || path == "/") return least;
  }
}

/// The memory that the control groups leave to this process.
int64_t group_bytes() {
  int64_t least = std::numeric_limits<int64_t>::max();
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t path = line.find(":/");
    if (path == std::string::npos) continue;
    if (line.starts_with("0::/")) {
      least = std::min(least, group_bytes(kVersion2, line.substr(path + 1)));
    } else if (line.substr(0, path).ends_with(":memory")) {
      least = std::min(least, group_bytes(kVersion1, line.substr(path + 1)));
    }
  }
  return least;
}

}  // namespace

int64_t available_memory_bytes() {
  const auto kib = number_after("/proc/meminfo", "MemAvailable:");
  const int64_t machine =
      kib ? *kib * 1024 : static_cast<int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  const std::optional<int64_t> limit = address_space_limit();
  const int64_t space =
      limit ? std::max<int64_t>(
                  0, *limit - number_after("/proc/self/status", "VmSize:").value_or(0) * 1024)
            : std::numeric_limits<int64_t>::max();
  return std::min({machine, group_bytes(), space});
}

void release_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

int64_t rss_bytes() { return number_after("/proc/self/status", "VmRSS:").value_or(0) * 1024; }

int64_t peak_rss_bytes() {
  // VmHWM rather than getrusage: only VmHWM is affected by reset_peak_rss.
  if (const auto kib = number_after("/proc/self/status", "VmHWM:")) return *kib * 1024;
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss * int64_t{1024} : 0;
}

bool reset_peak_rss() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5\n";  // 5 resets only the peak, proc(5)
  return static_cast<bool>(clear.flush());
}

}  // namespace kinema::runtime
