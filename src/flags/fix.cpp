#include "flags/fix.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace kinema::flags {

std::string fixed(const EnvironmentFlags& list, const Effective& effective) {
  std::vector<std::string> dropped;
  for (const Finding& finding : effective.findings) {
    if (finding.severity == Severity::ERROR && !finding.allowed) {
      dropped.insert(dropped.end(), finding.drop.begin(), finding.drop.end());
    }
  }
  std::vector<std::string> kept;
  for (const EnvironmentFlag& flag : list.flags) {
    if (std::ranges::count(dropped, flag.word) == 0) {
      kept.push_back(flag.word);
    }
  }
  return fmt::format("{}", fmt::join(kept, " "));
}

}  // namespace kinema::flags
