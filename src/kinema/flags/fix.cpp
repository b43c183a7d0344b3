#include "kinema/flags/fix.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace kinema::flags {

std::string fixed(const EnvironmentFlags& list, const Effective& effective) {
  std::vector<std::string> dropped;
  std::vector<std::string> added;
  for (const Finding& finding : effective.findings) {
    if (finding.severity == Severity::ERROR && !finding.allowed) {
      dropped.insert(dropped.end(), finding.drop.begin(), finding.drop.end());
      for (const auto& [variable, word] : finding.add) {
        if (variable == list.variable && std::ranges::count(added, word) == 0) {
          added.push_back(word);
        }
      }
    }
  }
  std::vector<std::string> kept;
  for (const EnvironmentFlag& flag : list.flags) {
    if (std::ranges::count(dropped, flag.word) == 0) {
      kept.push_back(flag.word);
    }
  }
  for (std::string& word : added) {
    if (std::ranges::count(kept, word) == 0) {
      kept.push_back(std::move(word));
    }
  }
  return fmt::format("{}", fmt::join(kept, " "));
}

}  // namespace kinema::flags
