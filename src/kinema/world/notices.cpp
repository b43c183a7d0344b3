#include "kinema/world/notices.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/world/communicator.h"

namespace kinema::world {

void LogLines::received(int64_t rank, const std::string& text) {
  if (!shown_.contains(text)) {
    std::vector<int64_t>& ranks = received_[text].ranks;
    ranks.insert(std::ranges::upper_bound(ranks, rank), rank);
  }
}

std::vector<std::string> LogLines::due(double seconds) {
  std::vector<std::string> out;
  for (auto each = received_.begin(); each != received_.end();) {
    const auto& [text, heard] = *each;
    if (!shown_.contains(text) && heard.age.seconds() < seconds) {
      ++each;
      continue;
    }
    if (shown_.insert(text).second) {
      const std::string whose = heard.ranks.size() == 1
                                    ? names_.at(static_cast<size_t>(heard.ranks.front()))
                                    : ranks_text(heard.ranks);
      out.push_back(fmt::format("[{}] {}", whose, text));
    }
    each = received_.erase(each);
  }
  return out;
}

}  // namespace kinema::world
