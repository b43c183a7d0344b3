#include "kinema/world/consistency.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/fingerprint.h"

namespace kinema::world {
namespace {

constexpr double kLongest = 4 * 3600;  // seconds; a process may still be encoding clips
// Neither occurs in a name; a value may contain the second.
constexpr char kEndOfName = '\x01';
constexpr char kEndOfField = '\x02';

std::string text_of(const StartRecord& record) {
  std::string out;
  for (const auto& [name, value] : record) {
    out += name + kEndOfName + value + kEndOfField;
  }
  return out;
}

StartRecord record_of(std::string_view text) {
  StartRecord out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(kEndOfField), text.size());
    const std::string_view field = text.substr(0, end);
    const size_t name = std::min(field.find(kEndOfName), field.size());
    out.emplace_back(field.substr(0, name), name < field.size() ? field.substr(name + 1) : "");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

constexpr size_t kMost = 60;  // bytes of a value in the message

bool begins_character(const std::string& text, size_t at) {
  return at >= text.size() || (static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U;
}

/// A value; of a long one, the part around `at`, where it starts to differ.
std::string shown(const std::string& value, size_t at) {
  if (value.size() <= kMost) {
    return value.empty() ? "nothing" : value;
  }
  constexpr size_t kBefore = 20;
  size_t first = at <= kMost - kBefore ? 0 : std::min(at, value.size()) - kBefore;
  size_t end = std::min(first + kMost, value.size());
  while (first > 0 && !begins_character(value, first)) {
    --first;
  }
  while (!begins_character(value, end)) {
    ++end;
  }
  return fmt::format("{}{}{}", first > 0 ? "..." : "", value.substr(first, end - first),
                     end < value.size() ? "..." : "");
}

std::string value_in(const StartRecord& record, const std::string& name) {
  const auto found = std::ranges::find(record, name, &StartRecord::value_type::first);
  return found == record.end() ? "" : found->second;
}

using NameOf = std::function<std::string(int64_t)>;

std::string who(const NameOf& name_of, const std::vector<int64_t>& ranks) {
  return ranks.size() == 1 ? name_of(ranks.front()) : ranks_text(ranks);
}

/// `learning_rate is 1e-05 on process 3 on d, 0.0001 on the others`; empty if all are equal.
std::string difference(const NameOf& name_of, const std::string& name,
                       const std::vector<StartRecord>& all) {
  std::map<std::string, std::vector<int64_t>> by_value;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    by_value[value_in(all[rank], name)].push_back(static_cast<int64_t>(rank));
  }
  if (by_value.size() == 1) {
    return "";
  }
  // The value of most processes is assumed to be the intended one; in a tie, process 0's.
  const auto most = std::ranges::max_element(by_value, [](const auto& a, const auto& b) {
    return std::pair(a.second.size(), -a.second.front()) <
           std::pair(b.second.size(), -b.second.front());
  });
  size_t alike = most->first.size();  // length of the common prefix
  for (const auto& [value, ranks] : by_value) {
    const auto stop = std::ranges::mismatch(value, most->first).in1;
    alike = std::min(alike, static_cast<size_t>(stop - value.begin()));
  }
  std::string out;
  for (auto each = by_value.begin(); each != by_value.end(); ++each) {
    if (each != most) {
      out += fmt::format("{}{} on {}", out.empty() ? "" : ", ", shown(each->first, alike),
                         who(name_of, each->second));
    }
  }
  return fmt::format("{} is {}, {} on {}", name, out, shown(most->first, alike),
                     who(name_of, most->second));
}

}  // namespace

void check_consistent(World& world, const StartRecord& own, const std::string& what) {
  check_consistent(
      world.communicator(), [&](int64_t rank) { return world.name_of(rank); }, own, what);
}

void check_consistent(Communicator& communicator, const NameOf& name_of, const StartRecord& own,
                      const std::string& what) {
  const Wait wait{.what = what, .seconds = kLongest};
  const std::string text = text_of(own);
  const std::vector<std::string> prints =
      communicator.gather(fmt::format("{:016x}", fingerprint(text)), wait);
  if (std::ranges::count(prints, prints.front()) == std::ssize(prints)) {
    return;
  }
  std::vector<StartRecord> all;
  std::vector<std::string> names;  // in the order of the records
  for (const std::string& each : communicator.gather(text, wait)) {
    all.push_back(record_of(each));
    for (const auto& [name, value] : all.back()) {
      if (std::ranges::find(names, name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  constexpr int kShown = 4;
  std::string found;
  int count = 0;
  for (const std::string& name : names) {
    const std::string one = difference(name_of, name, all);
    if (!one.empty() && count++ < kShown) {
      found += (found.empty() ? "" : "; ") + one;
    }
  }
  fail("[world] the processes were not started alike: {}{}", found,
       count > kShown ? fmt::format("; and {} more", count - kShown) : "");
}

}  // namespace kinema::world
