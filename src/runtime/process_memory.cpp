#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "runtime/environment.h"

namespace kinema::runtime {
namespace {

/// The number behind a word of a file; nothing when there is no such word or number.
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
  return in >> value ? std::optional(value) : std::nullopt;  // `max` is no number
}

/// What the control groups (version 2) above this process leave it; files that were read and could
/// be dropped do not count as taken.
int64_t group_bytes() {
  int64_t least = std::numeric_limits<int64_t>::max();
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("0::/")) continue;
    const std::string top = "/sys/fs/cgroup";
    for (std::string path = line.substr(3);; path.erase(path.rfind('/'))) {
      const std::string folder = top + (path == "/" ? "" : path);
      const auto limit = first_number(folder + "/memory.max");
      const auto used = first_number(folder + "/memory.current");
      if (limit && used) {
        const int64_t files = number_after(folder + "/memory.stat", "inactive_file").value_or(0);
        least = std::min(least, std::max<int64_t>(0, *limit - (*used - files)));
      }
      if (path.empty() || path == "/") break;
    }
  }
  return least;
}

}  // namespace

int64_t available_memory_bytes() {
  const auto kib = number_after("/proc/meminfo", "MemAvailable:");
  const int64_t machine =
      kib ? *kib * 1024 : static_cast<int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return std::min(machine, group_bytes());
}

int64_t peak_rss_bytes() {
  // VmHWM rather than getrusage: only this one starts anew with reset_peak_rss.
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss * int64_t{1024} : 0;
}

bool reset_peak_rss() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5\n";  // 5 resets the peak alone, proc(5)
  return static_cast<bool>(clear.flush());
}

}  // namespace kinema::runtime
