#include <sys/resource.h>

#include <fstream>
#include <string>

#include "runtime/environment.h"

namespace kinema::runtime {

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
